/* SPDX-License-Identifier: MIT
 *
 * A block with a handler, in C that is compiled with -fexceptions; see cleanup.cpp. */
#include <pthread.h>

#include <stint/cleanup.h>

void in_c_block(void (*handler)(void *), void *arg, void (*function)(void));

void in_c_block(void (*handler)(void *), void *arg, void (*function)(void))
{
    pthread_cleanup_push(handler, arg);
    function();
    pthread_cleanup_pop(1);
}

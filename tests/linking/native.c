/* SPDX-License-Identifier: MIT
 *
 * A library of Java's (JNI) that is linked with stint. */
#include <jni.h>

#include "probe.h"

JNIEXPORT jint JNICALL Java_Probe_probe(JNIEnv *java, jclass class, jstring wanted);

JNIEXPORT jint JNICALL Java_Probe_probe(JNIEnv *java, jclass class, jstring wanted)
{
    (void)class;
    const char *text = (*java)->GetStringUTFChars(java, wanted, NULL);
    if (text == NULL)
        return 1;
    int answer = probe(text);
    (*java)->ReleaseStringUTFChars(java, wanted, text);
    return answer;
}

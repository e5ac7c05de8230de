/* SPDX-License-Identifier: MIT
 *
 * A job as a worker takes it: a message whose subject, reply and headers somebody else has written. What can be read
 * points into the message, and its name can be sent on. */
#include "job.h"

#include "fuzz.h"

/* Up to the next line feed; it is cut out of the text. */
static char *next_line(char **text)
{
    return *text != NULL ? strsep(text, "\n") : (char *)(uintptr_t) "";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job job;
    natsMsg *message = NULL;
    char *text = fuzz_text(data, size);
    char *rest = text;
    const char *subject = next_line(&rest), *reply = next_line(&rest), *kind = next_line(&rest),
               *name = next_line(&rest);
    if (natsMsg_Create(&message, subject, reply, rest, rest != NULL ? (int)strlen(rest) : 0) == NATS_OK) {
        natsMsgHeader_Set(message, JOB_KIND, kind);
        natsMsgHeader_Set(message, JOB_NAME, name);
        if (job_read(&job, message, "stint")) {
            fuzz_require(job.id != NULL && job.name != NULL && job.name[0] != '\0');
            natsMsg *letter = job_write("stint.dead.1", kind, job.name, natsMsg_GetData(message),
                                        (size_t)natsMsg_GetDataLength(message));
            natsMsg_Destroy(letter);
        }
        natsMsg_Destroy(message);
    }
    free(text);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * XML in rare encodings. In a task or without a scope; any thread. */
#ifndef JOBS_XML_ENCODING_H
#define JOBS_XML_ENCODING_H

#include "library.h"

/* Set *utf8 to the document converted to UTF-8, to be freed by the caller, or to NULL if libxml2 can read it as it is.
 * 0; EBADMSG or ENOMEM, with document->detail filled. */
int xml_to_utf8(parse_document *document, const char *text, size_t size, char **utf8, size_t *utf8_size);

#endif

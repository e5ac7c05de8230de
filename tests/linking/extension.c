/* SPDX-License-Identifier: MIT
 *
 * An extension of Python's that is linked with stint. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "probe.h"

static PyObject *call_probe(PyObject *self, PyObject *arguments)
{
    (void)self;
    const char *wanted;
    return PyArg_ParseTuple(arguments, "s", &wanted) ? PyLong_FromLong(probe(wanted)) : NULL;
}

static PyMethodDef methods[] = { { "probe", call_probe, METH_VARARGS, NULL }, { NULL, NULL, 0, NULL } };
static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "linking_extension", .m_size = -1, .m_methods = methods
};

PyMODINIT_FUNC PyInit_linking_extension(void);

PyMODINIT_FUNC PyInit_linking_extension(void)
{
    return PyModule_Create(&module);
}

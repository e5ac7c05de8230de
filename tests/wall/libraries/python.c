/* SPDX-License-Identifier: MIT
 *
 * CPython: an interpreter of the process with a lock of its own, memory that it maps by itself, and caches everywhere.
 * At first use it reads some of its modules from files. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "library.h"

static const char code[] =
    "import gc, heapq, itertools\n"
    "class Node:\n"
    "    def __init__(self, value, parent):\n"
    "        self.value, self.parent, self.children = value, parent, []\n"
    "        if parent is not None:\n"
    "            parent.children.append(self)\n"
    "    def walk(self):\n"
    "        yield self.value\n"
    "        for child in self.children:\n"
    "            yield from child.walk()\n"
    "def tree(depth, parent=None):\n"
    "    node = Node((seed * 31 + depth) % 101, parent)\n"
    "    for _ in range(3 if depth else 0):\n"
    "        tree(depth - 1, node)\n"
    "    return node\n"
    "def words():\n"
    "    for i in itertools.islice(itertools.count(seed % 50), 80):\n"
    "        yield f'{i:04x}-{i * i % 97}'\n"
    "found = {}\n"
    "for word in words():\n"
    "    found.setdefault(word[-1], []).append(word.upper())\n"
    "caught = 0\n"
    "for word in words():\n"
    "    try:\n"
    "        caught += int(word, 16)\n"
    "    except ValueError as error:\n"
    "        caught += len(str(error))\n"
    "made = {}\n"
    "exec(compile('def power(n):\\n    return pow(n, 300) % (10 ** 40 + n)\\n', 'made', 'exec'), made)\n"
    "answer = [sum(tree(3).walk()), caught, str(made['power'](seed + 3)),\n"
    "          heapq.nsmallest(5, words()), sorted(found.items()), 3.5 ** (seed % 7)]\n"
    "gc.collect()\n"
    "answer = repr(answer)\n";

static bool set_paths(PyConfig *config)
{
    config->module_search_paths_set = 1;
    return !PyStatus_Exception(PyConfig_SetBytesString(config, &config->program_name, "walled-libraries")) &&
           !PyStatus_Exception(PyConfig_SetBytesString(config, &config->executable, "/nowhere/walled-libraries")) &&
           !PyStatus_Exception(PyConfig_SetBytesString(config, &config->prefix, "/nowhere")) &&
           !PyStatus_Exception(PyConfig_SetBytesString(config, &config->exec_prefix, "/nowhere")) &&
           !PyStatus_Exception(PyWideStringList_Append(&config->module_search_paths, L"" PYTHON_FOLDER));
}

/* Nothing of the user's, no signals, no random seed of the hashes. */
static int begin(void)
{
    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    if (PyStatus_Exception(Py_PreInitialize(&before)))
        return ENOMEM;
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.write_bytecode = 0;
    config.use_hash_seed = 1;
    config.hash_seed = 7;
    bool well = set_paths(&config) && !PyStatus_Exception(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
    return well ? 0 : EBADMSG;
}

static int run(PyObject *names, uint64_t *sum)
{
    PyObject *result = PyRun_String(code, Py_file_input, names, names);
    PyObject *answer = result == NULL ? NULL : PyDict_GetItemString(names, "answer");
    const char *text = answer == NULL ? NULL : PyUnicode_AsUTF8(answer);
    if (text != NULL)
        sum_text(sum, text);
    Py_XDECREF(result);
    return text != NULL ? 0 : EBADMSG;
}

static int work(uint32_t seed, uint64_t *sum)
{
    int error = Py_IsInitialized() ? 0 : begin();
    if (error != 0)
        return error;
    PyObject *names = PyDict_New();
    PyObject *number = PyLong_FromUnsignedLong(seed);
    error =
        names == NULL || number == NULL || PyDict_SetItemString(names, "seed", number) != 0 ? ENOMEM : run(names, sum);
    PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(names);
    return error;
}

const struct library library_python = { "CPython", { PYTHON_FOLDER, NULL }, work };

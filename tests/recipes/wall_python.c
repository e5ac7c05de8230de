/* SPDX-License-Identifier: MIT
 *
 * The recipe for an embedded CPython behind a wall, as docs/wall.md gives it: the interpreter starts in setup, with the
 * modules that scripts may want, and each child runs one script in it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "walled.h"

static int start_python(void *unused)
{
    PyConfig config;
    (void)unused;
    PyConfig_InitIsolatedConfig(&config);
    config.write_bytecode = 0;
    PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        return ENOEXEC;
    /* Modules that a closed wall's children could not load later. */
    if (PyRun_SimpleString("import ctypes, json, math, os, random, re, socket") != 0)
        return ENOEXEC;
    PyOS_BeforeFork(); /* takes what PyOS_AfterFork_Child lets go; later versions of Python abort without it */
    return 0;
}

/* The script leaves its answer in the variable `answer`. */
static int run_script(const void *script, size_t size, stint_reply *reply)
{
    PyOS_AfterFork_Child(); /* random numbers are seeded anew, too */
    PyObject *names = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyObject *text = PyUnicode_DecodeUTF8(script, (Py_ssize_t)size, NULL);
    const char *source = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    PyObject *done = source != NULL ? PyRun_String(source, Py_file_input, names, names) : NULL;
    if (done == NULL) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *said = PyObject_Str(value != NULL ? value : type);
        const char *message = said != NULL ? PyUnicode_AsUTF8(said) : "?";
        return stint_fail(EBADMSG, message, strlen(message) + 1);
    }
    PyObject *answer = PyObject_Str(PyDict_GetItemString(names, "answer"));
    Py_ssize_t length = 0;
    const char *bytes = answer != NULL ? PyUnicode_AsUTF8AndSize(answer, &length) : NULL;
    return bytes != NULL ? stint_reply_write(reply, bytes, (size_t)length) : EBADMSG;
}

static int make_script_wall(stint_wall **wall)
{
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.name = "scripts";
    options.setup = start_python;
    options.spare = 1; /* made while another one works */
    return stint_wall_create(&options, wall);
}

/* --- What it is tried with. --- */

static stint_future *submit_script(struct fixture fixture, const char *script)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget = (stint_budget){ .memory = 64 * MIB, .cpu_ns = UINT64_C(300000000), .run_ns = TEN_SECONDS };
    return submit_walled(fixture.pool, fixture.wall, run_script, script, strlen(script), &options);
}

static stint_outcome run(struct fixture fixture, const char *script)
{
    return take_in_time(submit_script(fixture, script));
}

TEST(a_script_gives_its_answer)
{
    struct fixture fixture = begin(make_script_wall);
    assert_replied(run(fixture, "answer = sum(range(10))"), "45");
    assert_replied(run(fixture, "answer = json.dumps({'a': re.sub('b', 'c', 'abc')})"), "{\"a\": \"acc\"}");
    assert_replied(run(fixture, "answer = 'kept' if 'x' in globals() else 'fresh'; x = 1"), "fresh");
    assert_replied(run(fixture, "answer = 'kept' if 'x' in globals() else 'fresh'; x = 1"), "fresh");
    end(fixture);
}

TEST(random_numbers_differ_between_children)
{
    struct fixture fixture = begin(make_script_wall);
    stint_outcome one = run(fixture, "answer = random.getrandbits(64)");
    stint_outcome other = run(fixture, "answer = random.getrandbits(64)");
    assert_int_equal(one.status, STINT_OK);
    assert_int_equal(other.status, STINT_OK);
    assert_true(one.payload_size != other.payload_size || memcmp(one.value, other.value, one.payload_size) != 0);
    stint_free(one.value);
    stint_free(other.value);
    end(fixture);
}

TEST(an_exception_is_an_error_with_its_text)
{
    struct fixture fixture = begin(make_script_wall);
    stint_future *future = submit_script(fixture, "1 / 0");
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_FAILED);
    assert_string_equal(outcome.payload, "division by zero");
    stint_future_release(future);
    end(fixture);
}

TEST(a_script_opens_no_files_and_makes_no_sockets)
{
    static const char *const scripts[] = {
        "try: open('/etc/passwd'); answer = 'done'\nexcept OSError as error: answer = type(error).__name__",
        "try: socket.socket(); answer = 'done'\nexcept OSError as error: answer = type(error).__name__",
    };
    struct fixture fixture = begin(make_script_wall);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        assert_replied(run(fixture, scripts[i]), "PermissionError");
    end(fixture);
}

TEST(whatever_a_script_does_the_program_goes_on)
{
    struct fixture fixture = begin(make_script_wall);
    const struct {
        const char *script;
        stint_reason reason;
    } scripts[] = {
        { "while True: pass", STINT_REASON_CPU },
        { "re.match('(a*)*b', 'a' * 100)", STINT_REASON_CPU }, /* in C, where no signal is looked at */
        { "x = [0] * 10**9", STINT_REASON_MEMORY_LIMIT },
        { "x = []\nwhile True: x.append('x' * 1000)", STINT_REASON_MEMORY_LIMIT },
        { "os.abort()", STINT_REASON_CRASH },
        { "ctypes.string_at(0)", STINT_REASON_CRASH },
        { "os._exit(3)", STINT_REASON_EXIT },
        { "os.kill(os.getpid(), 9)", STINT_REASON_KILLED },
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        stint_outcome outcome = run(fixture, scripts[i].script);
        assert_ended(&outcome, STINT_ERROR, scripts[i].reason);
        assert_replied(run(fixture, "answer = 'on'"), "on");
    }
    end(fixture);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()

/* The Python side: runs in a dict of its own, leaves __main__, sys.path and a pending exception
 * alone. */
#include "recorder/recorder_internal.h"

#include <dlfcn.h>

#define PY_FILE_INPUT 257

/* What is used of CPython; its own headers are not needed and must not be. */
struct python {
    int (*Py_IsInitialized)(void);
    int (*PyGILState_Check)(void);
    void *(*PyDict_New)(void);
    int (*PyDict_SetItemString)(void *dict, const char *key, void *value);
    void *(*PyDict_GetItemString)(void *dict, const char *key); /* borrowed */
    void *(*PyEval_GetBuiltins)(void);                          /* borrowed */
    void *(*PyUnicode_FromString)(const char *text);
    const char *(*PyUnicode_AsUTF8)(void *text);
    void *(*PyRun_String)(const char *code, int start, void *globals, void *locals);
    void (*PyErr_Fetch)(void **type, void **value, void **trace);
    void (*PyErr_Restore)(void *type, void *value, void *trace);
    void (*PyErr_Clear)(void);
    void (*PyErr_SetInterrupt)(void);
    void (*Py_DecRef)(void *object);
};

static const char bootstrap[] =
    "try:\n"
    "    import importlib.util, sys\n"
    "    s = importlib.util.spec_from_file_location('_twinbit_glue', glue + '/twinbit/_glue.py')\n"
    "    m = importlib.util.module_from_spec(s)\n"
    "    sys.modules['_twinbit_glue'] = m\n"
    "    s.loader.exec_module(m)\n"
    "    m.install(tap)\n"
    "except KeyboardInterrupt:\n"
    "    error, interrupted = 'the Python side was interrupted', True\n"
    "except BaseException as e:\n"
    "    error = 'the Python side did not start: ' + type(e).__name__ + ': ' + str(e)\n";

static bool load(struct python *py)
{
    static const char *const names[] = {
        "Py_IsInitialized",     "PyGILState_Check",
        "PyDict_New",           "PyDict_SetItemString",
        "PyDict_GetItemString", "PyEval_GetBuiltins",
        "PyUnicode_FromString", "PyUnicode_AsUTF8",
        "PyRun_String",         "PyErr_Fetch",
        "PyErr_Restore",        "PyErr_Clear",
        "PyErr_SetInterrupt",   "Py_DecRef",
    };
    void **slot = (void **)py;

    static_assert(sizeof(*py) == sizeof(names), "one name a function");
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++) {
        slot[i] = tb_rt_real_dlsym(RTLD_DEFAULT, names[i]);
        if (!slot[i])
            return false;
    }
    return true;
}

static bool set_text(const struct python *py, void *dict, const char *key, const char *text)
{
    void *object = py->PyUnicode_FromString(text);
    bool ok = object && py->PyDict_SetItemString(dict, key, object) == 0;

    if (object)
        py->Py_DecRef(object);
    return ok;
}

static void run(const struct python *py, void *dict, const char *tap)
{
    void *result = NULL, *error;

    if (py->PyDict_SetItemString(dict, "__builtins__", py->PyEval_GetBuiltins()) == 0 &&
        set_text(py, dict, "glue", tb_rt.config.glue) && set_text(py, dict, "tap", tap))
        result = py->PyRun_String(bootstrap, PY_FILE_INPUT, dict, dict);
    error = py->PyDict_GetItemString(dict, "error");
    const char *text = error ? py->PyUnicode_AsUTF8(error) : NULL;
    if (text || !result)
        tb_rt_log(text ? text : "the Python side did not start");
    if (py->PyDict_GetItemString(dict, "interrupted"))
        py->PyErr_SetInterrupt(); /* the job's, not ours */
    if (result)
        py->Py_DecRef(result);
    py->PyErr_Clear();
}

void tb_rt_glue(const char *tap)
{
    struct python py;
    void *type, *value, *trace;

    if (!load(&py) || !py.Py_IsInitialized() || !py.PyGILState_Check())
        return;
    py.PyErr_Fetch(&type, &value, &trace);
    void *dict = py.PyDict_New();
    if (dict) {
        run(&py, dict, tap);
        py.Py_DecRef(dict);
    }
    py.PyErr_Clear();
    py.PyErr_Restore(type, value, trace);
}

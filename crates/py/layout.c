/* Compares the structures of `dict` in codec/layout.rs with this interpreter's own headers. Compiled by build.rs for
   its syntax only: an assertion that fails, or a header that is missing, leaves the layout unused. */
#define Py_BUILD_CORE
#include <Python.h>
#include <stddef.h>
#include "internal/pycore_dict.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000
#error "no release of this version was compared"
#endif
#ifdef Py_GIL_DISABLED
#error "tables have a lock where there is no GIL"
#endif

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

AT(PyDictObject, ma_used, 16);
AT(PyDictObject, ma_keys, 32);
AT(PyDictObject, ma_values, 40);
_Static_assert(sizeof(PyDictObject) == 48, "PyDictObject");

AT(PyDictKeysObject, dk_refcnt, 0);
AT(PyDictKeysObject, dk_log2_size, 8);
AT(PyDictKeysObject, dk_log2_index_bytes, 9);
AT(PyDictKeysObject, dk_kind, 10);
AT(PyDictKeysObject, dk_version, 12);
AT(PyDictKeysObject, dk_usable, 16);
AT(PyDictKeysObject, dk_nentries, 24);
AT(PyDictKeysObject, dk_indices, 32);
_Static_assert(sizeof(((PyDictKeysObject *)0)->dk_refcnt) == 8, "dk_refcnt");

AT(PyDictUnicodeEntry, me_key, 0);
AT(PyDictUnicodeEntry, me_value, 8);
_Static_assert(sizeof(PyDictUnicodeEntry) == 16, "PyDictUnicodeEntry");
_Static_assert(DICT_KEYS_UNICODE == 1, "DICT_KEYS_UNICODE");

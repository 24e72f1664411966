//! The offsets of a class's `__slots__` in its instances.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Returns the offset of a slot that holds an object; of instances of `class`, if given. None if `member` is not such a
/// slot's descriptor, or belongs to a class from which `class` does not inherit.
pub(crate) fn offset(member: &Bound<'_, PyAny>, class: Option<&Bound<'_, PyType>>) -> Option<usize> {
    // SAFETY: the type check makes the cast right; class and `d_member` live as long as the descriptor.
    unsafe {
        if ffi::Py_TYPE(member.as_ptr()) != &raw mut ffi::PyMemberDescr_Type {
            return None;
        }
        let descriptor = member.as_ptr().cast::<ffi::PyMemberDescrObject>();
        let owner = (*descriptor).d_common.d_type;
        if class.is_some_and(|class| ffi::PyType_IsSubtype(class.as_type_ptr(), owner) == 0) {
            return None;
        }
        let definition = (*descriptor).d_member;
        ((*definition).type_code == ffi::Py_T_OBJECT_EX && (*definition).offset > 0)
            .then_some((*definition).offset as usize)
    }
}

/// Returns the value in a slot of an instance; None if it was never set or is deleted.
///
/// # Safety
/// `offset` must come from `offset` for the class of `object`, or for one that it inherits from.
#[inline]
pub(crate) unsafe fn read<'py>(object: &Bound<'py, PyAny>, offset: usize) -> Option<Bound<'py, PyAny>> {
    // SAFETY: by the caller's promise there is an object pointer, or null. The new reference outlives any change of the slot.
    unsafe {
        let value = object.as_ptr().byte_add(offset).cast::<*mut ffi::PyObject>().read();
        Bound::from_borrowed_ptr_or_opt(object.py(), value)
    }
}

//! Ciphers, hashes and random bytes for libmongocrypt, which would otherwise call Python for them.
//!
//! Plain C functions, given to Python as addresses: `mangonel.encryption` passes them to the library after checking the
//! layout of [`Binary`]. Nothing here touches the interpreter. Blocks and digests are made in memory of this module and
//! copied by pointer, so an output may be where its input is. Error messages hold no data.
use std::ffi::{c_char, c_void};
use std::ptr;

use aes::Aes256;
use aes::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, StreamCipher};
use hmac::{Hmac, KeyInit, Mac};
use mangonel_entries::entries;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sha2::{Digest, Sha256, Sha512};

const BLOCK: usize = 16;
const KEY: usize = 32;
/// `MONGOCRYPT_STATUS_ERROR_CLIENT`
const CLIENT_ERROR: u32 = 1;

/// `mongocrypt_binary_t`: a view of borrowed memory; for an output, its length is the capacity.
#[repr(C)]
struct Binary {
    data: *mut u8,
    len: u32,
}

/// `mongocrypt_status_set`; the library passes it as the first argument of each function.
type StatusSet = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_char, i32);

impl Binary {
    /// Returns the bytes of a view.
    ///
    /// # Safety
    /// `view` is null or a view whose bytes can be read, and nothing writes them while the result is used.
    unsafe fn bytes<'a>(view: *const Binary) -> Option<&'a [u8]> {
        // SAFETY: null becomes None; anything else is a live view of the library's, which the functions below pass on
        // as they got it.
        let view = unsafe { view.as_ref()? };
        match (view.len as usize, view.data.is_null()) {
            (0, _) => Some(&[]),
            (_, true) => None,
            // SAFETY: of a view that is neither empty nor null the library promises `len` bytes from `data` on, and
            // that nothing writes them while a callback uses them.
            (len, false) => Some(unsafe { std::slice::from_raw_parts(view.data, len) }),
        }
    }

    /// Returns the bytes of a view that must have exactly this many.
    ///
    /// # Safety
    /// As for `bytes`, without its second half: they are copied.
    unsafe fn exactly<const N: usize>(view: *const Binary) -> Option<[u8; N]> {
        // SAFETY: the view can be read, and the slice ends with this statement: the bytes are copied out of it.
        unsafe { Binary::bytes(view)?.try_into().ok() }
    }

    /// Writes a whole output.
    ///
    /// # Safety
    /// `view` is null or a view whose bytes can be written, and no reference to them or to it is alive.
    unsafe fn give(view: *mut Binary, bytes: &[u8]) -> Option<()> {
        // SAFETY: null becomes None; anything else is a live view of the library's for an output, and no reference to
        // it is alive, so it may be borrowed to be changed.
        let view = unsafe { view.as_mut()? };
        if view.data.is_null() || (view.len as usize) < bytes.len() {
            return None;
        }
        // SAFETY: the output has room for them, as was just compared, and `bytes` are this module's own memory.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), view.data, bytes.len()) };
        view.len = bytes.len() as u32;
        Some(())
    }
}

/// Returns whether the result is a success; if not, sets the status.
///
/// # Safety
/// `tell` is null or the address of `mongocrypt_status_set`, and `status` is what that takes.
unsafe fn end(tell: *mut c_void, status: *mut c_void, result: Option<()>) -> bool {
    if result.is_none() && !tell.is_null() {
        // SAFETY: not null, as was just asked, so it is the address of `mongocrypt_status_set`, which the library was
        // given for it; functions and data have pointers of one size on all platforms of Python.
        let tell = unsafe { std::mem::transmute::<*mut c_void, StatusSet>(tell) };
        let text = c"cryptography failed: a key, a vector, an input or an output has the wrong length";
        // SAFETY: `tell` is that function, and `status` the library's own object for it; the text is static and ends
        // with a zero, as -1 says.
        unsafe { tell(status, CLIENT_ERROR, 1, text.as_ptr(), -1) };
    }
    result.is_some()
}

/// Applies `turn` to each chunk of `input` and writes `output`; returns the number of bytes.
///
/// # Safety
/// `input` and `output` are null or views of memory that can be read and written, for the whole call; they may overlap
/// only if they start at the same byte.
unsafe fn through(
    input: *const Binary,
    output: *mut Binary,
    in_blocks: bool,
    mut turn: impl FnMut(&mut [u8; BLOCK]),
) -> Option<u32> {
    // SAFETY: null becomes None; anything else is a live view of the library's. Two fields are copied out of it, and no
    // reference stays.
    let (from, len) = unsafe { input.as_ref().map(|view| (view.data, view.len as usize))? };
    // SAFETY: null becomes None; anything else is a live view of the library's, which may be the one above: this reads
    // as well.
    let (to, room) = unsafe { output.as_ref().map(|view| (view.data, view.len as usize))? };
    if room < len || (in_blocks && len % BLOCK != 0) || (len > 0 && (from.is_null() || to.is_null())) {
        return None;
    }
    for at in (0..len).step_by(BLOCK) {
        let size = BLOCK.min(len - at);
        let mut block = [0; BLOCK];
        // SAFETY: `at + size <= len <= room`, so both ends are inside of their views; the block is a local.
        unsafe { ptr::copy_nonoverlapping(from.add(at), block.as_mut_ptr(), size) };
        turn(&mut block);
        // SAFETY: `at + size <= room`, so the end is inside of the output. Where it is the input as well, this chunk of
        // it was copied before; the block is a local.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), to.add(at), size) };
    }
    // SAFETY: it is not null, as it was read above, and no reference to it is alive.
    unsafe { (*output).len = len as u32 };
    Some(len as u32)
}

/// Declares a cipher of libmongocrypt's type `mongocrypt_crypto_fn`.
macro_rules! cipher {
    ($name:ident, $mode:ty, $in_blocks:literal, $turn:expr) => {
        /// # Safety
        /// Called by libmongocrypt only, with views of its memory that are valid for the call.
        unsafe extern "C" fn $name(
            tell: *mut c_void,
            key: *const Binary,
            iv: *const Binary,
            input: *const Binary,
            output: *mut Binary,
            written: *mut u32,
            status: *mut c_void,
        ) -> bool {
            let work = || {
                // SAFETY: the library calls with a view of the key that is valid for the call; it is copied.
                let key = unsafe { Binary::exactly::<KEY>(key)? };
                // SAFETY: the library calls with a view of the vector that is valid for the call; it is copied.
                let iv = unsafe { Binary::exactly::<BLOCK>(iv)? };
                let mut mode = <$mode>::new(&key.into(), &iv.into());
                let turn: fn(&mut $mode, &mut [u8; BLOCK]) = $turn;
                // SAFETY: the library calls with views that are valid for the call, and uses for both the same memory
                // or memory apart.
                let count = unsafe { through(input, output, $in_blocks, |block| turn(&mut mode, block))? };
                if written.is_null() {
                    return None;
                }
                // SAFETY: not null, as was just asked, so it is the library's own number for this call.
                unsafe { *written = count };
                Some(())
            };
            // SAFETY: the library hands back the context that it was given with this function, and its status.
            unsafe { end(tell, status, work()) }
        }
    };
}

cipher!(cbc_encrypt, cbc::Encryptor<Aes256>, true, |mode, block| mode
    .encrypt_block(Array::cast_from_core_mut(block)));
cipher!(cbc_decrypt, cbc::Decryptor<Aes256>, true, |mode, block| mode
    .decrypt_block(Array::cast_from_core_mut(block)));
cipher!(ctr, ctr::Ctr128BE<Aes256>, false, |mode, block| mode.apply_keystream(block));

/// Declares a keyed hash of libmongocrypt's type `mongocrypt_hmac_fn`.
macro_rules! keyed_hash {
    ($name:ident, $hash:ty) => {
        /// # Safety
        /// As for the ciphers.
        unsafe extern "C" fn $name(
            tell: *mut c_void,
            key: *const Binary,
            input: *const Binary,
            output: *mut Binary,
            status: *mut c_void,
        ) -> bool {
            let work = || {
                // SAFETY: the library calls with a view of the key that is valid for the call, and nothing writes it
                // until the hash is made.
                let mut hash = <Hmac<$hash>>::new_from_slice(unsafe { Binary::bytes(key)? }).ok()?;
                // SAFETY: the library calls with a view of the input that is valid for the call, and nothing writes it
                // until the hash is made.
                hash.update(unsafe { Binary::bytes(input)? });
                // SAFETY: the library calls with a view of an output that is valid for the call; the slices of key and
                // input are used no more.
                unsafe { Binary::give(output, &hash.finalize().into_bytes()) }
            };
            // SAFETY: the library hands back the context that it was given with this function, and its status.
            unsafe { end(tell, status, work()) }
        }
    };
}

keyed_hash!(hmac_sha_512, Sha512);
keyed_hash!(hmac_sha_256, Sha256);

/// # Safety
/// As for the ciphers.
unsafe extern "C" fn sha_256(
    tell: *mut c_void,
    input: *const Binary,
    output: *mut Binary,
    status: *mut c_void,
) -> bool {
    let work = || {
        // SAFETY: the library calls with a view of the input that is valid for the call, and nothing writes it until
        // the hash is made.
        let digest = Sha256::digest(unsafe { Binary::bytes(input)? });
        // SAFETY: the library calls with a view of an output that is valid for the call; the slice of the input is used
        // no more.
        unsafe { Binary::give(output, &digest) }
    };
    // SAFETY: the library hands back the context that it was given with this function, and its status.
    unsafe { end(tell, status, work()) }
}

/// Returns the addresses by the names that `mangonel.encryption` uses.
#[entries]
#[pyfunction]
fn crypto_functions(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let table: [(&str, *const ()); 6] = [
        ("cbc_encrypt", cbc_encrypt as *const ()),
        ("cbc_decrypt", cbc_decrypt as *const ()),
        ("ctr", ctr as *const ()),
        ("hmac_sha_512", hmac_sha_512 as *const ()),
        ("hmac_sha_256", hmac_sha_256 as *const ()),
        ("sha_256", sha_256 as *const ()),
    ];
    let functions = PyDict::new(py);
    for (name, function) in table {
        functions.set_item(name, function.addr())?;
    }
    Ok(functions)
}

/// Adds the functions of this module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crypto_functions, module)?)
}

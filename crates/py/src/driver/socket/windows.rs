//! The system calls of `mod.rs` on Windows. It has no call that returns at once on a blocking socket, so the sockets
//! are made non-blocking here, regardless of the socket object's setting; `_faces/blocking.py` sets the object again.

use std::io;
use std::ptr::null_mut;
use std::time::Duration;

use windows_sys::Win32::Networking::WinSock::{
    FIONBIO, POLLRDNORM, POLLWRNORM, SOCKET, WSABUF, WSAPOLLFD, WSAPoll, WSARecv, WSASend, ioctlsocket,
};

use super::{Progress, When, outcome};

pub const TO_RECEIVE: i16 = POLLRDNORM;
pub const TO_SEND: i16 = POLLWRNORM;

/// Windows' number of a socket, of which 32 bits are used.
fn socket(fd: i32) -> SOCKET {
    fd as u32 as SOCKET
}

/// A range of memory in Windows' form; a longer range is truncated.
fn buffer(start: *mut u8, length: usize) -> WSABUF {
    WSABUF { len: u32::try_from(length).unwrap_or(u32::MAX), buf: start }
}

pub fn send(fd: i32, bytes: &[u8], when: When) -> io::Result<Progress> {
    if when == When::Now {
        prepare(fd);
    }
    let part = buffer(bytes.as_ptr().cast_mut(), bytes.len());
    let mut count = 0;
    // SAFETY: the system reads one part, within its length, writes the count, and both only for the time of the call, as
    // nothing is overlapped; any socket may be named.
    let failed = unsafe { WSASend(socket(fd), &raw const part, 1, &raw mut count, 0, null_mut(), None) };
    moved(failed, count)
}

pub fn receive(fd: i32, window: &mut [u8], _when: When) -> io::Result<Progress> {
    // SAFETY: no byte goes to the first part.
    unsafe { receive_both(fd, null_mut(), 0, window, When::Now) }
}

/// Receives `direct` bytes to `place`, and further ones into `window`.
///
/// # Safety
/// `place` must have room for `direct` bytes.
pub unsafe fn receive_both(
    fd: i32,
    place: *mut u8,
    direct: usize,
    window: &mut [u8],
    _when: When,
) -> io::Result<Progress> {
    let parts = [buffer(place, direct), buffer(window.as_mut_ptr(), window.len())];
    let used = if direct == 0 { &parts[1..] } else { &parts[..] };
    let (mut count, mut flags) = (0, 0);
    // SAFETY: the caller has room for the first part; the second is the window. They and the two numbers are written to
    // for the time of the call only, as nothing is overlapped, while no other code has them.
    let failed = unsafe {
        let (first, length) = (used.as_ptr(), used.len() as u32);
        WSARecv(socket(fd), first, length, &raw mut count, &raw mut flags, null_mut(), None)
    };
    moved(failed, count)
}

/// Returns whether the peer has closed the connection or sent unexpected data.
pub fn has_ended(fd: i32) -> bool {
    !matches!(poll(fd, TO_RECEIVE, 0), Ok(Progress::WouldBlock))
}

/// Waits until the socket is ready for `events`, or the time is over; returns whether it is ready.
pub fn wait_for(fd: i32, events: i16, timeout: Duration) -> io::Result<Progress> {
    poll(fd, events, i32::try_from(timeout.as_millis().max(1)).unwrap_or(i32::MAX))
}

fn poll(fd: i32, events: i16, milliseconds: i32) -> io::Result<Progress> {
    let mut entry = WSAPOLLFD { fd: socket(fd), events, revents: 0 };
    // SAFETY: the system reads and writes one entry, as the count says, which is ours, and only for the time of the call.
    let ready = unsafe { WSAPoll(&raw mut entry, 1, milliseconds) };
    match outcome(ready as isize)? {
        Progress::Moved(0) => Ok(Progress::WouldBlock),
        other => Ok(other),
    }
}

/// Makes calls return at once. Returns whether that lasts as long as the socket: no, since the socket object may change
/// it.
pub fn prepare(fd: i32) -> bool {
    let mut is_non_blocking = 1;
    // SAFETY: the system reads one number, which is ours. Where it fails, so does the next call.
    unsafe { ioctlsocket(socket(fd), FIONBIO, &raw mut is_non_blocking) };
    false
}

/// Reads the result of a call that returns its byte count separately.
fn moved(failed: i32, count: u32) -> io::Result<Progress> {
    outcome(if failed == 0 { count as isize } else { -1 })
}

//! The system calls of `mod.rs` on POSIX systems.

use std::io;
use std::time::Duration;

use super::{LONGEST_WAIT, Progress, When, outcome};

pub const TO_RECEIVE: i16 = libc::POLLIN;
pub const TO_SEND: i16 = libc::POLLOUT;

impl When {
    fn flags(self) -> i32 {
        if self == When::Now { libc::MSG_DONTWAIT } else { 0 }
    }
}

pub fn send(fd: i32, bytes: &[u8], when: When) -> io::Result<Progress> {
    let flags = when.flags() | libc::MSG_NOSIGNAL;
    // SAFETY: the system reads `bytes` within their length, and only for the time of the call; any `fd` may be named.
    outcome(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

pub fn receive(fd: i32, window: &mut [u8], when: When) -> io::Result<Progress> {
    receive_by_flags(fd, window, when.flags())
}

fn receive_by_flags(fd: i32, window: &mut [u8], flags: i32) -> io::Result<Progress> {
    // SAFETY: the system writes to `window` within its length, and only during the call, while no other code has it.
    outcome(unsafe { libc::recv(fd, window.as_mut_ptr().cast(), window.len(), flags) })
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
    when: When,
) -> io::Result<Progress> {
    let mut parts = [
        libc::iovec { iov_base: place.cast(), iov_len: direct },
        libc::iovec { iov_base: window.as_mut_ptr().cast(), iov_len: window.len() },
    ];
    // SAFETY: all-zero is a valid msghdr: no address, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = 2;
    // SAFETY: the caller has room for the first part; the second is the window. Both are written to for the time of the
    // call only, while no other code has them.
    outcome(unsafe { libc::recvmsg(fd, &raw mut header, when.flags()) })
}

/// Returns whether the peer has closed the connection or sent unexpected data.
pub fn has_ended(fd: i32) -> bool {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    !matches!(receive_by_flags(fd, &mut [0], flags), Ok(Progress::WouldBlock))
}

/// Waits until the socket is ready for `events`, or the time is over; returns whether it is ready.
pub fn wait_for(fd: i32, events: i16, timeout: Duration) -> io::Result<Progress> {
    let milliseconds = i32::try_from(timeout.as_millis().max(1)).unwrap_or(i32::MAX);
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: the system reads and writes one pollfd, as the count says, which is ours, and only for the time of the call.
    let ready = unsafe { libc::poll(&raw mut entry, 1, milliseconds) };
    match outcome(ready as isize)? {
        Progress::Moved(0) => Ok(Progress::WouldBlock),
        other => Ok(other),
    }
}

/// Limits each receiving call on a blocking socket to LONGEST_WAIT, which costs shorter calls nothing. Returns whether
/// the limit holds for the life of the socket.
pub fn prepare(fd: i32) -> bool {
    let interval = libc::timeval { tv_sec: LONGEST_WAIT.as_secs() as libc::time_t, tv_usec: 0 };
    let size = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: `interval` is one live timeval of `size` bytes, as the option demands. Where it fails, calls wait longer.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const interval).cast(), size) };
    true
}

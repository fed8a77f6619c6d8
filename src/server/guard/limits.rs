//! Limits that are counted: bytes of bodies, and requests by who sends them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use super::keys::KeyId;
use crate::server::error::ApiError;
use crate::server::settings::Settings;

/// Bytes that bodies in flight may take together.
#[derive(Debug)]
pub struct Memory {
    free: AtomicU64,
}

impl Memory {
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Memory { free: AtomicU64::new(bytes) })
    }

    /// Sets bytes aside, if there are so many.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        let taken = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(bytes));
        taken.ok().map(|_| Reserved { memory: self.clone(), bytes })
    }
}

/// Bytes that come back when it is dropped.
#[derive(Debug)]
pub struct Reserved {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Reserved {
    /// Has at least so many bytes from here on, if there are so many.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let taken = self.memory.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(more));
        self.bytes += if taken.is_ok() { more } else { 0 };
        taken.is_ok()
    }

    /// Gives back what turned out not to be needed.
    pub fn shrink(&mut self, bytes: u64) {
        let over = self.bytes.saturating_sub(bytes);
        self.bytes -= over;
        self.memory.free.fetch_add(over, Ordering::AcqRel);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.free.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

/// Who sends requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sender {
    Key(KeyId),
    Address(IpAddr),
}

impl Sender {
    /// By address. One machine has all addresses of an IPv6 network of 64 bits.
    pub fn address(address: IpAddr) -> Self {
        Sender::Address(match address.to_canonical() {
            IpAddr::V6(it) => IpAddr::V6((it.to_bits() & (u128::MAX << 64)).into()),
            it => it,
        })
    }
}

/// How many requests a second and at a time each sender has.
#[derive(Debug)]
pub struct Senders {
    /// Requests a second; 0 for no limit.
    rate: f64,
    burst: f64,
    /// 0 for no limit.
    at_a_time: usize,
    known: Mutex<HashMap<Sender, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    running: usize,
}

/// Senders that are kept in mind. Those who have not asked for some seconds can be forgotten at no loss.
const MOST_KNOWN: usize = 65_536;
/// A pause earns so many seconds' requests.
const BURST_SECONDS: f64 = 2.0;

impl Senders {
    pub fn new(settings: &Settings) -> Arc<Self> {
        let (rate, at_a_time) = (settings.rate, settings.key_concurrency);
        Arc::new(Senders { rate, burst: (rate * BURST_SECONDS).max(1.0), at_a_time, known: Mutex::default() })
    }

    /// Lets a request of a sender in, or says when to come again.
    ///
    /// # Errors
    /// 429.
    pub fn enter(self: &Arc<Self>, sender: Sender, now: Instant) -> Result<Option<Turn>, ApiError> {
        if self.rate == 0.0 && self.at_a_time == 0 {
            return Ok(None);
        }
        let mut known = self.lock();
        if known.len() >= MOST_KNOWN && !known.contains_key(&sender) {
            known.retain(|_, it| it.running > 0 || !self.is_full(it, now));
            if known.len() >= MOST_KNOWN {
                return Err(busy("rate_limited", "too many senders ask at once", Duration::from_secs(1)));
            }
        }
        let new = Bucket { tokens: self.burst, filled: now, running: 0 };
        self.take(known.entry(sender.clone()).or_insert(new), now)?;
        Ok(Some(Turn { senders: self.clone(), sender }))
    }

    fn take(&self, bucket: &mut Bucket, now: Instant) -> Result<(), ApiError> {
        if self.at_a_time > 0 && bucket.running >= self.at_a_time {
            let message =
                format!("{} requests of this key or address are in flight already: wait for one", bucket.running);
            return Err(busy("key_concurrency", message, Duration::from_secs(1)));
        }
        if self.rate > 0.0 {
            bucket.tokens = self.tokens(bucket, now);
            bucket.filled = now.max(bucket.filled);
            if bucket.tokens < 1.0 {
                let wait = Duration::try_from_secs_f64((1.0 - bucket.tokens) / self.rate).unwrap_or(Duration::MAX);
                let message =
                    format!("more than {} requests a second came from this key or address: send fewer", self.rate);
                return Err(busy("rate_limited", message, wait));
            }
            bucket.tokens -= 1.0;
        }
        bucket.running += 1;
        Ok(())
    }

    fn tokens(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        (bucket.tokens + passed * self.rate).min(self.burst)
    }

    fn is_full(&self, bucket: &Bucket, now: Instant) -> bool {
        self.rate == 0.0 || self.tokens(bucket, now) >= self.burst
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sender, Bucket>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 429, with whole seconds to wait, rounded up.
pub fn busy(code: &'static str, message: impl Into<String>, wait: Duration) -> ApiError {
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).clamp(1, 3600);
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, message).retry_after(Duration::from_secs(seconds))
}

/// A request that is being answered; it counts until it is dropped.
#[derive(Debug)]
pub struct Turn {
    senders: Arc<Senders>,
    sender: Sender,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(bucket) = self.senders.lock().get_mut(&self.sender) {
            bucket.running = bucket.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders(keys: &str) -> Arc<Senders> {
        Senders::new(&crate::server::settings::tests::settings(keys))
    }

    fn key(name: &str) -> Sender {
        Sender::Key(name.into())
    }

    /// Whether requests at these seconds are let in, or after how many seconds they may come again.
    #[track_caller]
    fn check(rate: &str, seconds: &[f64], expected: &[u64]) {
        let (senders, start) = (senders(&format!("rate = {rate}")), Instant::now());
        let ask = |at: &f64| match senders.enter(key("a"), start + Duration::from_secs_f64(*at)) {
            Ok(_) => 0,
            Err(error) => error.retry_after.expect("always told").as_secs(),
        };
        assert_eq!(seconds.iter().map(ask).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_burst_is_two_seconds_requests_and_a_pause_earns_it_again() {
        check("1", &[0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 100.0, 100.0, 100.0], &[0, 0, 1, 1, 0, 1, 0, 0, 1]);
        check("0.1", &[0.0, 0.0, 5.0, 10.0], &[0, 10, 5, 0]);
        check("0", &[0.0; 100], &[0; 100]);
    }

    #[test]
    fn senders_have_limits_of_their_own() {
        let (senders, now) = (senders("rate = 0.5"), Instant::now());
        let is_in = |sender: Sender| senders.enter(sender, now).is_ok();
        assert!(is_in(key("a")) && is_in(key("b")) && !is_in(key("a")));
        let address = |text: &str| Sender::address(text.parse().expect("an address"));
        assert!(is_in(address("10.0.0.1")) && is_in(address("10.0.0.2")) && !is_in(address("::ffff:10.0.0.1")));
        assert!(is_in(address("2001:db8::1")) && !is_in(address("2001:db8::2")) && is_in(address("2001:db8:0:1::1")));
    }

    #[test]
    fn a_turn_ends_when_it_is_dropped() {
        let (senders, now) = (senders("key_concurrency = 2"), Instant::now());
        let enter = || senders.enter(key("a"), now);
        let (first, _second) = (enter().expect("one"), enter().expect("two"));
        assert_eq!(enter().err().map(|it| it.code), Some("key_concurrency"));
        drop(first);
        enter().expect("one of two");
    }

    #[test]
    fn those_who_came_once_are_forgotten_when_there_are_too_many() {
        let (senders, now) = (senders("rate = 1"), Instant::now());
        let address = |it: u32| Sender::Address(IpAddr::V4(it.into()));
        let all = (0..MOST_KNOWN as u32).filter(|it| senders.enter(address(*it), now).is_ok()).count();
        assert_eq!(all, MOST_KNOWN);
        assert!(senders.enter(address(u32::MAX), now).is_err(), "nobody can be forgotten yet");
        assert!(senders.enter(address(7), now).is_ok(), "those who are known are let in still");
        assert!(senders.enter(address(u32::MAX), now + Duration::from_secs(2)).is_ok());
        assert!(senders.lock().len() < 10);
    }

    #[test]
    fn memory_comes_back() {
        let memory = Memory::new(100);
        let mut first = memory.reserve(60).expect("60 of 100");
        assert!(memory.reserve(41).is_none());
        first.shrink(10);
        let second = memory.reserve(90).expect("90 of 90");
        assert!(memory.reserve(1).is_none());
        drop((first, second));
        memory.reserve(100).expect("all of it");
        memory.reserve(0).expect("nothing");
    }
}

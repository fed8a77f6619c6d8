//! How much is embedded before its vectors are kept: what is lost when somebody does not want to wait, and how long it takes to stop.

use std::time::Duration;

/// Windows of a batch at most.
const BATCH: usize = 128;
/// Tokens of the first batch, before it is known how fast the model is here.
const FIRST_TOKENS: usize = 2048;
/// Fewer would cost a large model more time than they save.
const LEAST_TOKENS: usize = 512;
/// What a batch is to take.
const AIM: Duration = Duration::from_secs(3);
/// A batch is at most so many times the one before it: the first may have been quick by chance.
const MOST_GROWTH: usize = 4;

/// The size of batches, by how long those before took.
pub struct Pace {
    tokens: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { tokens: FIRST_TOKENS }
    }
}

impl Pace {
    /// How many of the first of some windows, by their tokens, are the next batch; at least one where there is any.
    pub fn next(&self, tokens: impl Iterator<Item = usize>) -> usize {
        let mut sum = 0;
        let fits = |(at, tokens): &(usize, usize)| {
            sum += tokens;
            *at == 0 || sum <= self.tokens
        };
        tokens.take(BATCH).enumerate().take_while(fits).count()
    }

    /// Notes what a batch of so many tokens took.
    pub fn took(&mut self, tokens: usize, time: Duration) {
        let share = AIM.as_secs_f64() / time.as_secs_f64().max(1e-3);
        let fitting = (tokens as f64 * share) as usize;
        self.tokens = fitting.clamp(LEAST_TOKENS, self.tokens.saturating_mul(MOST_GROWTH).max(LEAST_TOKENS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(past: &[(usize, u64)], windows: &[usize], expected: usize) {
        let mut pace = Pace::default();
        past.iter().for_each(|(tokens, seconds)| pace.took(*tokens, Duration::from_secs(*seconds)));
        assert_eq!(pace.next(windows.iter().copied()), expected);
    }

    #[test]
    fn a_batch_takes_some_seconds() {
        check(&[], &[], 0);
        check(&[], &[9000, 1], 1);
        check(&[], &[1024, 1024, 1], 2);
        check(&[], &[1; 500], BATCH);
        // A hundred tokens a second: the least there is.
        check(&[(2000, 20)], &[256; 9], 2);
        // Five hundred: three seconds are 1500.
        check(&[(2000, 4)], &[250; 9], 6);
        // Far more: four times the first batch.
        check(&[(2000, 0)], &[1024; 99], 8);
    }
}

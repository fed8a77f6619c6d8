//! Progress on standard error, on a terminal only.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A bar that disappears when it is dropped. Shows nothing when standard error is no terminal, or for work that is
/// done at once.
pub struct Bar {
    bar: ProgressBar,
}

/// Redraws a second; a terminal over a network copes with it.
const REDRAWS: u8 = 10;

impl Bar {
    /// A bar labelled with what is done to what ("reading", "files").
    pub fn new(verb: &str, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(REDRAWS));
        let template = format!("{verb:>10} [{{bar:30}}] {{human_pos}}/{{human_len}} {unit}  {{rate}}  {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let rate = |state: &ProgressState, out: &mut dyn Write| _ = write!(out, "{:.0}/s", state.per_sec());
            bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar { bar }
    }

    /// Shows how far the work is.
    pub fn at(&self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }
}

/// Files that arrive one after the other.
pub struct Transfer {
    bar: ProgressBar,
}

impl Transfer {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(REDRAWS));
        let template = "{msg:>30} [{bar:30}] {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Transfer { bar }
    }

    /// Shows how much of a file is here.
    pub fn at(&self, file: &str, done: u64, total: u64) {
        if self.bar.message() != file {
            self.bar.set_message(file.to_owned());
            self.bar.set_position(done);
            self.bar.reset_eta();
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// One bar after the other, as the work goes on.
#[derive(Default)]
pub struct Phases(Mutex<Option<(&'static str, Bar)>>);

impl Phases {
    /// Shows how far a phase is; another one takes its place.
    pub fn at(&self, verb: &'static str, unit: &str, done: usize, total: usize) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shown {
            Some((before, bar)) if *before == verb => bar.at(done, total),
            _ => {
                drop(shown.take());
                shown.insert((verb, Bar::new(verb, unit))).1.at(done, total);
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

//! F1: tests.

//! Any bytes as the `config.json` and the `model.safetensors` of a Qwen3-VL: an error or a network, and never more memory than they have.

#![no_main]

use libfuzzer_sys::fuzz_target;

// Two bytes say how long the configuration is; the weights follow it.
fuzz_target!(|input: &[u8]| {
    let Some((length, rest)) = input.split_first_chunk::<2>() else { return };
    let (config, weights) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length))));
    let _ = sightline::encoder::qwen3_vl::check_files(config, weights);
});

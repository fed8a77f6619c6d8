//! Configurations as they are published, in both spellings, and those that this network is not for.

use serde_json::{Value, json};

use super::*;

/// That of the published 2B model, as far as it matters.
fn published() -> Value {
    json!({
        "model_type": "qwen3_vl",
        "image_token_id": 151655, "video_token_id": 151656, "vision_start_token_id": 151652, "vision_end_token_id": 151653,
        "tie_word_embeddings": true,
        "text_config": {
            "attention_bias": false, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144,
            "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-6,
            "rope_theta": 5_000_000, "vocab_size": 151_936,
            "rope_scaling": {"mrope_interleaved": true, "mrope_section": [24, 20, 20], "rope_type": "default"},
        },
        "vision_config": {
            "deepstack_visual_indexes": [5, 11, 17], "depth": 24, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1024,
            "in_channels": 3, "intermediate_size": 4096, "num_heads": 16, "num_position_embeddings": 2304,
            "out_hidden_size": 2048, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
        },
    })
}

/// With the value at a pointer replaced, or taken out if it is null.
fn with(pointer: &str, value: Value) -> Value {
    let mut config = published();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = config.pointer_mut(parent).and_then(Value::as_object_mut).expect("it is there");
    match value {
        Value::Null => drop(parent.remove(key)),
        value => drop(parent.insert(key.to_owned(), value)),
    }
    config
}

fn read(config: &Value) -> Result<Config, Objection> {
    Config::read(config.to_string().as_bytes())
}

#[test]
fn the_published_one() {
    let Config { text, vision, .. } = read(&published()).expect("it is the model's own");
    assert_eq!((text.heads * text.head, text.kv_heads, text.layers, text.sections), (2048, 8, 28, [24, 20, 20]));
    assert_eq!((text.theta, text.epsilon), (5e6, 1e-6));
    assert_eq!((vision.side, vision.head(), vision.patch_values(), vision.merged()), (48, 64, 1536, 4));
    assert_eq!(vision.deepstack, [5, 11, 17]);
}

#[test]
fn the_newer_spelling_is_the_same() {
    let mut newer = published();
    let text = newer["text_config"].as_object_mut().expect("an object");
    text.remove("rope_scaling");
    text.remove("rope_theta");
    text.insert(
        "rope_parameters".to_owned(),
        json!({"rope_theta": 5_000_000.0, "rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": true}),
    );
    newer.as_object_mut().expect("an object").remove("tie_word_embeddings");
    newer["text_config"]["tie_word_embeddings"] = json!(false);
    assert_eq!(read(&newer), read(&published()));
}

#[track_caller]
fn check_foreign(pointer: &str, value: Value, expected: &str) {
    match read(&with(pointer, value)) {
        Err(Objection::Foreign(cause)) => assert!(cause.contains(expected), "`{cause}` lacks `{expected}`"),
        other => panic!("{pointer}: {other:?}"),
    }
}

#[test]
fn other_networks_are_refused_by_the_setting() {
    check_foreign("/model_type", json!("qwen2_vl"), "`qwen2_vl` instead of `qwen3_vl`");
    check_foreign("/quantization_config", json!({"bits": 4}), "quantization_config");
    check_foreign("/text_config/hidden_act", json!("gelu"), "`gelu` instead of `silu`");
    check_foreign("/vision_config/hidden_act", json!("gelu"), "`gelu` instead of `gelu_pytorch_tanh`");
    check_foreign("/text_config/attention_bias", json!(true), "`attention_bias` is true");
    let mut sliding = with("/text_config/use_sliding_window", json!(true));
    sliding["text_config"]["sliding_window"] = json!(4096);
    assert!(matches!(read(&sliding), Err(Objection::Foreign(_))));
    check_foreign("/text_config/rope_scaling/rope_type", json!("yarn"), "`yarn` instead of `default`");
    check_foreign("/text_config/rope_scaling/mrope_interleaved", json!(false), "`mrope_interleaved` is false");
    check_foreign("/text_config/rope_scaling/mrope_section", json!([24, 20]), "2 values");
    check_foreign("/text_config/rope_scaling/mrope_section", json!([24, 20, 19]), "half of `head_dim`");
    check_foreign("/text_config/rope_scaling/mrope_section", json!([u64::MAX, u64::MAX, 2]), "half of `head_dim`");
    check_foreign("/text_config/rope_scaling", Value::Null, "`mrope_section`");
    check_foreign("/text_config/rope_theta", Value::Null, "`rope_theta`");
    check_foreign("/vision_config/in_channels", json!(1), "`in_channels`");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    check_foreign("/text_config/num_key_value_heads", json!(7), "`num_key_value_heads`");
    check_foreign("/vision_config/num_heads", json!(15), "does not divide");
    check_foreign("/vision_config/num_heads", json!(512), "multiple of 4");
    check_foreign("/vision_config/out_hidden_size", json!(4096), "`out_hidden_size`");
    check_foreign("/vision_config/num_position_embeddings", json!(2300), "no square");
    check_foreign("/vision_config/deepstack_visual_indexes", json!([5, 11, 24]), "beyond `depth`");
    check_foreign("/vision_config/deepstack_visual_indexes", json!([11, 5]), "not ascending");
    check_foreign("/text_config/num_hidden_layers", json!(3), "as many values");
    check_foreign("/text_config/rms_norm_eps", json!(0.0), "`rms_norm_eps`");
    check_foreign("/text_config/vocab_size", json!(151_655), "beyond `vocab_size`");
}

#[test]
fn absurd_sizes_are_refused_by_name() {
    for section in ["text_config", "vision_config"] {
        let names: Vec<String> = published()[section].as_object().expect("an object").keys().cloned().collect();
        for name in names.iter().filter(|it| published()[section][it.as_str()].is_u64() && *it != "rope_theta") {
            for absurd in [json!(0), json!(u64::MAX)] {
                if name != "in_channels" {
                    check_foreign(&format!("/{section}/{name}"), absurd, name);
                }
            }
        }
    }
}

#[test]
fn what_is_no_configuration_is_damage() {
    for bytes in [&b""[..], b"{", b"[]", b"\xff", b"{\"model_type\": \"qwen3_vl\"}"] {
        assert!(matches!(Config::read(bytes), Err(Objection::Damaged(_))));
    }
    assert!(matches!(read(&with("/text_config/hidden_size", json!(-1))), Err(Objection::Damaged(_))));
    assert!(matches!(read(&with("/vision_config", Value::Null)), Err(Objection::Damaged(_))));
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = Config::read(&bytes);
    }
}

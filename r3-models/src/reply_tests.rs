//! Answers as different servers send them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sse;

fn whole(body: Value) -> Result<Whole, Fault> {
    let mut draft = Draft::default();
    draft.whole(&body.to_string())?;
    draft.finish(100, true)
}

fn text(body: Value) -> String {
    whole(body).unwrap().text
}

fn stream(text: &str, framed: bool) -> Result<Whole, Fault> {
    let mut reader = sse::Reader::default();
    let mut draft = Draft::default();
    let mut events = reader.feed(text.as_bytes()).unwrap();
    events.extend(reader.finish());
    for event in events {
        draft.event(&event)?;
        if draft.is_done() {
            break;
        }
    }
    draft.finish(100, framed)
}

#[test]
fn text_is_found_in_every_form() {
    let forms = [
        json!({"choices": [{"message": {"role": "assistant", "content": "abc"}, "finish_reason": "stop"}]}),
        json!({"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "output_text", "text": "bc"}]}}]}),
        json!({"choices": [{"message": {"content": ["a", "b", "c"]}}]}),
        json!({"choices": [{"message": {"content": {"text": "abc"}}, "finish_reason": null}]}),
        json!({"choices": [{"text": "abc", "finish_reason": "length"}]}),
        json!({"choices": [{"message": "abc"}], "error": null}),
        json!({"choices": [{"index": 1, "message": {"content": "other"}}, {"index": 0, "message": {"content": "abc"}}]}),
        json!({"choices": [{"message": {"content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "abc"}]}}]}),
        json!({"choices": [{"message": {"content": "abc", "reasoning_content": null, "tool_calls": [], "refusal": null}}], "error": {}}),
    ];
    for form in forms {
        assert_eq!(text(form.clone()), "abc", "{form}");
    }
}

#[test]
fn thoughts_are_no_part_of_the_answer() {
    let forms = [
        json!({"choices": [{"message": {"content": "abc", "reasoning_content": "hm"}}]}),
        json!({"choices": [{"message": {"content": "abc", "reasoning": "hm", "reasoning_details": [{"text": "hm"}]}}]}),
        json!({"choices": [{"message": {"content": "<think>\nhm\n</think>\n\nabc"}}]}),
        json!({"choices": [{"message": {"content": "hm\n</think>\n\nabc"}}]}),
        json!({"choices": [{"message": {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "abc"}]}}]}),
    ];
    for form in forms {
        let answer = whole(form.clone()).unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.thoughts.as_str()),
            ("abc", "hm"),
            "{form}"
        );
    }
    // Cut off in the middle of its thoughts: nothing was answered, and nothing of the service is wrong.
    let answer = whole(
        json!({"choices": [{"message": {"content": "<think>hm"}, "finish_reason": "length"}]}),
    )
    .unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("", Finish::Length));
}

#[test]
fn marks_in_the_middle_of_a_text_are_text() {
    let code = "before <think> and </think> after";
    assert_eq!(
        text(json!({"choices": [{"message": {"content": code}}]})),
        code
    );
}

#[test]
fn reasons_to_end_have_many_names() {
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("STOP", Finish::Stop),
        ("end_turn", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::Filtered),
        ("tool_calls", Finish::Other),
        ("", Finish::Other),
    ] {
        let body = json!({"choices": [{"message": {"content": "a"}, "finish_reason": reason}]});
        assert_eq!(whole(body).unwrap().finish, finish, "{reason}");
    }
    let body = json!({"choices": [{"message": {"content": "a"}, "finish_reason": "insufficient_system_resource"}]});
    assert!(matches!(whole(body), Err(Fault::Broken { .. })));
}

#[test]
fn a_refusal_is_an_answer_that_was_filtered() {
    let body = json!({"choices": [{"message": {"content": null, "refusal": "I cannot help."}, "finish_reason": "stop"}]});
    let answer = whole(body).unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.finish),
        ("I cannot help.", Finish::Filtered)
    );
}

#[test]
fn an_error_with_status_200_is_an_error() {
    for body in [
        json!({"error": {"message": "overloaded", "code": 503}}),
        json!({"error": "model is loading", "choices": []}),
        json!({"object": "error", "message": "overloaded", "error": {"message": "overloaded"}}),
    ] {
        assert!(
            matches!(whole(body.clone()), Err(Fault::Broken { .. })),
            "{body}"
        );
    }
    let body = json!({"error": {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}});
    assert!(matches!(whole(body), Err(Fault::Busy { .. })));
}

#[test]
fn what_has_no_answer_in_it_is_a_fault() {
    let mut bodies = vec![
        json!({}),
        json!([]),
        json!(7),
        json!(null),
        json!({"choices": []}),
    ];
    bodies.push(json!({"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}));
    for body in bodies {
        assert!(
            matches!(whole(body.clone()), Err(Fault::Broken { .. })),
            "{body}"
        );
    }
    let mut draft = Draft::default();
    let page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head></html>";
    assert!(matches!(draft.whole(page), Err(Fault::Broken { .. })));
}

#[test]
fn a_stream_is_put_together() {
    let answer = stream(
        ": keep-alive\n\n\
         data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null},\"finish_reason\":null}]}\n\n\
         data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n\
         data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ab\"},\"finish_reason\":null}]}\n\n\
         : keep-alive\n\n\
         data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"c\"}}]}\n\n\
         data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\n\
         data: [DONE]\n\n",
        false,
    )
    .unwrap();
    insta::assert_json_snapshot!(
        (&answer.text, &answer.thoughts, answer.finish, answer.usage, &answer.served_by),
        @r#"
    [
      "abc",
      "hm",
      "stop",
      {
        "prompt": 20,
        "cached": 16,
        "completion": 3,
        "estimated": false
      },
      "m-1"
    ]
    "#
    );
}

#[test]
fn a_stream_without_done_is_whole_when_it_says_why_it_ended_or_its_frame_does() {
    let pieces = "data: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\n";
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(
        stream(&format!("{pieces}{end}"), false).unwrap().text,
        "abc"
    );
    assert_eq!(stream(pieces, true).unwrap().finish, Finish::Other);
    assert!(matches!(stream(pieces, false), Err(Fault::Broken { .. })));
}

#[test]
fn an_error_in_the_middle_of_a_stream_ends_it() {
    let pieces = "data: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\n";
    for end in [
        "data: {\"error\":{\"message\":\"internal\",\"code\":500}}\n\n",
        "event: error\ndata: {\"message\":\"internal\"}\n\n",
        "error: {\"code\":500,\"message\":\"internal\",\"type\":\"server_error\"}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n",
        "data: not json\n\n",
    ] {
        assert!(
            matches!(
                stream(&format!("{pieces}{end}"), true),
                Err(Fault::Broken { .. })
            ),
            "{end}"
        );
    }
}

/// JSON with the names that matter, and anything in their places.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z<>/\\[\\]]{0,12}".prop_map(Value::from),
        Just(Value::from("stop")),
        Just(Value::from("</think>")),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        let names = prop_oneof![
            Just("choices"),
            Just("delta"),
            Just("message"),
            Just("content"),
            Just("text"),
            Just("type"),
            Just("error"),
            Just("code"),
            Just("usage"),
            Just("prompt_tokens"),
            Just("completion_tokens"),
            Just("prompt_tokens_details"),
            Just("cached_tokens"),
            Just("finish_reason"),
            Just("index"),
            Just("timings"),
            Just("data"),
            Just("embedding"),
            Just("reasoning_content"),
            Just("thinking"),
            Just("refusal"),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((names, inner), 0..5).prop_map(|fields| Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_panic_and_no_token_comes_from_nowhere(body in any_json()) {
        let text = body.to_string();
        if let Ok(answer) = whole(body) {
            prop_assert!(answer.text.len() + answer.thoughts.len() <= text.len());
            prop_assert!(answer.usage.cached <= answer.usage.prompt);
        }
        let _ = crate::embeddings::read(&text, 2);
        let mut draft = Draft::default();
        let event = sse::Event { kind: String::new(), data: text };
        let _ = draft.event(&event);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let _ = stream(&text, true);
        let _ = Draft::default().whole(&text);
        let _ = crate::embeddings::read(&text, 1);
        let _ = crate::fault::of_status(500, None, &text);
    }

    #[test]
    fn a_text_in_pieces_is_the_same_text(text in "[ -~\n\"\\\\äß∂]{0,200}", cuts in proptest::collection::vec(0usize..200, 0..6)) {
        prop_assume!(!text.contains("think>") && !text.trim().is_empty());
        let characters: Vec<char> = text.chars().collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(characters.len())).collect();
        cuts.extend([0, characters.len()]);
        cuts.sort_unstable();
        let pieces: String = cuts
            .windows(2)
            .map(|ends| {
                let piece: String = characters[ends[0]..ends[1]].iter().collect();
                format!("data: {}\n\n", json!({"choices": [{"delta": {"content": piece}}]}))
            })
            .collect();
        prop_assert_eq!(stream(&format!("{pieces}data: [DONE]\n\n"), false).unwrap().text, text);
    }
}

//! Vectors of texts: `/v1/embeddings`.

use serde_json::{Value, json};

use crate::chat::Usage;
use crate::fault::{self, Fault};
use crate::usage::Said;

/// Numbers of a vector at most.
const MOST: usize = 1 << 16;

/// The body of the request.
pub fn body(id: &str, texts: &[String], extra: &serde_json::Map<String, Value>) -> Value {
    let mut body = json!({ "model": id, "input": texts, "encoding_format": "float" });
    if let Value::Object(fields) = &mut body {
        for (name, value) in extra {
            fields.insert(name.clone(), value.clone());
        }
    }
    body
}

/// The vectors of `count` texts, in their order, and what they took.
pub fn read(text: &str, count: usize) -> Result<(Vec<Vec<f32>>, Said), Fault> {
    let body: Value = serde_json::from_str(text)
        .map_err(|_| Fault::broken(format!("the answer is not JSON: {}", fault::short(text))))?;
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Err(fault::of_error_object(200, error, &body));
    }
    // llama.cpp's own form is the list alone.
    let list = body
        .get("data")
        .unwrap_or(&body)
        .as_array()
        .ok_or_else(|| Fault::broken(format!("no vectors in {}", fault::short(text))))?;
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for (place, item) in list.iter().enumerate() {
        let index = item
            .get("index")
            .and_then(Value::as_u64)
            .map_or(place, |index| usize::try_from(index).unwrap_or(usize::MAX));
        if let (Some(slot), Some(vector)) = (vectors.get_mut(index), vector(item)) {
            *slot = Some(vector);
        }
    }
    let vectors: Option<Vec<Vec<f32>>> = vectors.into_iter().collect();
    let vectors = vectors.ok_or_else(|| {
        Fault::broken(format!(
            "{count} vectors were asked for, and not all came: {}",
            fault::short(text)
        ))
    })?;
    let length = vectors.first().map_or(0, Vec::len);
    if vectors.iter().any(|vector| vector.len() != length) {
        return Err(Fault::broken("vectors of different lengths".to_owned()));
    }
    let mut said = Said::default();
    said.take(&body);
    Ok((vectors, said))
}

/// What vectors took: no answer is counted.
pub fn usage(said: &Said, prompt: u64) -> Usage {
    let mut usage = said.usage(prompt, 0);
    usage.completion = 0;
    usage
}

fn vector(item: &Value) -> Option<Vec<f32>> {
    let mut numbers = item.get("embedding").unwrap_or(item).as_array()?;
    // One vector for each token is the pooling "none"; a list with one is a vector in a list.
    if let [Value::Array(inner)] = numbers.as_slice() {
        numbers = inner;
    }
    if numbers.is_empty() || numbers.len() > MOST {
        return None;
    }
    numbers
        .iter()
        .map(|number| {
            number
                .as_f64()
                .map(|number| number as f32)
                .filter(|n| n.is_finite())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let body = json!({"data": [
            {"index": 1, "embedding": [3.0, 4.0]}, {"index": 0, "embedding": [1, 2]}],
            "usage": {"prompt_tokens": 8, "total_tokens": 8}});
        let (vectors, said) = read(&body.to_string(), 2).unwrap();
        assert_eq!(vectors, [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(usage(&said, 0).prompt, 8);
    }

    #[test]
    fn forms_of_local_servers_are_read() {
        for body in [
            json!([{"index": 0, "embedding": [[1.0, 2.0]]}]),
            json!({"data": [{"embedding": [1.0, 2.0]}]}),
        ] {
            assert_eq!(
                read(&body.to_string(), 1).unwrap().0,
                [[1.0, 2.0]],
                "{body}"
            );
        }
    }

    #[test]
    fn missing_unequal_and_endless_vectors_are_faults() {
        for (body, count) in [
            (json!({"data": [{"index": 0, "embedding": [1.0]}]}), 2),
            (
                json!({"data": [{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}]}),
                2,
            ),
            (json!({"data": [{"embedding": [1e300]}]}), 1),
            (json!({"data": [{"embedding": null}]}), 1),
            (json!({"data": [{"embedding": "AAAA"}]}), 1),
            (json!({"error": {"message": "no such model"}}), 1),
        ] {
            assert!(read(&body.to_string(), count).is_err(), "{body}");
        }
    }
}

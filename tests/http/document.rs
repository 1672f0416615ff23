//! Checks responses against `/openapi.json`.

use getid_core::server::is_sequence_name;
use serde_json::Value;

use crate::support::http::{HttpServer, Response};

/// The OpenAPI document of a server.
pub(crate) struct Document(pub(crate) Value);

impl Document {
    pub(crate) fn of(server: &HttpServer) -> Document {
        Document(server.ask("GET /openapi.json").json())
    }

    /// Fails unless the document has this response to `line` (`POST /v1/ids/-?count=3`), with its media type and its
    /// schema.
    #[track_caller]
    pub(crate) fn check(&self, line: &str, response: &Response) {
        let (method, target) = line.split_once(' ').expect("a method and a path");
        let (_, operation) = self.operation(method, target).unwrap_or_else(|| panic!("{line} is not in the document"));
        let documented = &operation["responses"][response.status.to_string()];
        assert!(documented.is_object(), "{line}: {} is not in the document: {response:?}", response.status);
        let media = response.header("content-type").expect("a media type");
        let Some(content) = documented["content"].get(media) else { panic!("{line}: {media} is not in {documented}") };
        if let Some(schema) = content.get("schema") {
            let fits = self.fits(schema, &response.json(), "body");
            fits.unwrap_or_else(|error| panic!("{line}: {error}\n{}", response.text()));
        }
    }

    /// Returns the documented path for `target`, and its operation for the method.
    pub(crate) fn operation(&self, method: &str, target: &str) -> Option<(String, &Value)> {
        let path = target.split('?').next()?;
        let is_it = |template: &str| {
            let (parts, own) = (path.split('/'), template.split('/'));
            parts.clone().count() == own.clone().count()
                && parts.zip(own).all(|(part, own)| part == own || (own.starts_with('{') && !part.is_empty()))
        };
        let (template, methods) = self.0["paths"].as_object()?.iter().find(|(template, _)| is_it(template))?;
        Some((template.clone(), methods.get(method.to_lowercase())?))
    }

    /// Checks a value by the part of JSON Schema that the document uses. An unknown keyword is an error.
    fn fits(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{place}: {value} is not {what} of {schema}"));
        for (keyword, rule) in schema.as_object().ok_or_else(|| format!("{place}: no schema: {schema}"))? {
            let holds = match keyword.as_str() {
                "description" => true,
                "$ref" => {
                    let pointer =
                        rule.as_str().and_then(|text| text.strip_prefix('#')).ok_or("a $ref from elsewhere")?;
                    let own = self.0.pointer(pointer).ok_or_else(|| format!("nothing at {pointer}"))?;
                    self.fits(own, value, place)?;
                    true
                }
                "type" => {
                    let types = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
                    types.iter().any(|name| has_type(name.as_str(), value))
                }
                "enum" => rule.as_array().is_some_and(|all| all.contains(value)),
                "minimum" => value.as_f64().is_none_or(|value| value >= rule.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|value| value <= rule.as_f64().unwrap()),
                "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap()),
                "maxLength" => value.as_str().is_none_or(|text| text.len() as u64 <= rule.as_u64().unwrap()),
                "maxItems" => value.as_array().is_none_or(|all| all.len() as u64 <= rule.as_u64().unwrap()),
                "pattern" => matches_pattern(rule.as_str().unwrap(), value),
                "format" => value.as_str().is_none_or(|text| text.parse::<jiff::Timestamp>().is_ok()),
                "anyOf" => {
                    rule.as_array().is_some_and(|all| all.iter().any(|one| self.fits(one, value, place).is_ok()))
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.fits(rule, item, &format!("{place}[{index}]"))?;
                    }
                    true
                }
                "required" => {
                    let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
                    !value.is_object() || names.clone().all(|name| value.get(name).is_some())
                }
                "properties" => {
                    for (name, own) in rule.as_object().into_iter().flatten() {
                        if let Some(value) = value.get(name) {
                            self.fits(own, value, &format!("{place}.{name}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = |name: &str| schema["properties"].get(name).is_some();
                    let more = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                    if rule == &Value::Bool(false) {
                        more.clone().next().is_none()
                    } else {
                        for (name, value) in more {
                            self.fits(rule, value, &format!("{place}.{name}"))?;
                        }
                        true
                    }
                }
                _ => return Err(format!("the keyword {keyword} is not supported here")),
            };
            if !holds {
                return wrong(keyword);
            }
        }
        Ok(())
    }
}

fn has_type(name: Option<&str>, value: &Value) -> bool {
    match name {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => panic!("the type {name:?} is not supported here"),
    }
}

/// The pattern of sequences' names.
const SEQUENCE_NAME: &str = concat!(
    "^([A-Za-z0-9_.:{}#-]([A-Za-z0-9_.:{}# -]*[A-Za-z0-9_.:{}#-])?",
    "|([A-Za-z0-9_.:{}#-][A-Za-z0-9_.:{}# -]*)?\\{[A-Za-z0-9_.:{}#@ -]*\\}",
    "([A-Za-z0-9_.:{}# -]*[A-Za-z0-9_.:{}#-])?)$",
);

fn matches_pattern(pattern: &str, value: &Value) -> bool {
    let Some(text) = value.as_str() else { return true };
    match pattern {
        "^[0-9]+$" => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
        "^[A-Za-z0-9_.:-]+$" => {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
        }
        // The words that a path cannot express match, too.
        SEQUENCE_NAME => is_sequence_name(text) || [".", "..", "-"].contains(&text),
        "^[A-Za-z0-9_.-]+$" => {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
        }
        "^[A-Za-z0-9]+$" => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "^[!-~]+$" => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()),
        "^[0-9a-f]{32}$" => text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        _ => panic!("the pattern {pattern} is not supported here"),
    }
}

#[test]
fn the_checker_finds_invalid_values() {
    let document = Document(serde_json::json!({
        "components": { "schemas": { "Name": { "type": "string", "minLength": 2, "pattern": "^[0-9]+$" } } },
    }));
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {
            "a": { "type": "integer", "minimum": 1, "maximum": 3 },
            "b": { "anyOf": [{ "$ref": "#/components/schemas/Name" }, { "type": "null" }] },
            "c": { "type": "array", "maxItems": 1, "items": { "enum": ["x"] } },
            "d": { "type": "string", "format": "date-time" },
            "f": { "type": ["integer", "null"], "minimum": 0 },
            "g": { "type": ["object", "null"], "required": ["a"] },
        },
    });
    let fits = |text: &str| document.fits(&schema, &serde_json::from_str(text).unwrap(), "body").is_ok();
    assert!(fits(r#"{"a":1,"b":"12","c":["x"],"d":"2026-11-22T00:00:00.000Z"}"#));
    assert!(fits(r#"{"a":3,"b":null,"f":null,"g":null}"#));
    for wrong in [
        "[]",
        "{}",
        r#"{"a":0}"#,
        r#"{"a":4}"#,
        r#"{"a":"1"}"#,
        r#"{"a":1.5}"#,
        r#"{"a":1,"e":1}"#,
        r#"{"a":1,"b":"1"}"#,
        r#"{"a":1,"b":"1x"}"#,
        r#"{"a":1,"c":["y"]}"#,
        r#"{"a":1,"c":["x","x"]}"#,
        r#"{"a":1,"d":"yesterday"}"#,
        r#"{"a":1,"f":-1}"#,
        r#"{"a":1,"f":"1"}"#,
        r#"{"a":1,"g":{}}"#,
    ] {
        assert!(!fits(wrong), "{wrong}");
    }
}

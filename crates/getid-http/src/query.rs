//! Parses queries by an endpoint's row.

use std::borrow::Cow;

use serde_json::Value;

use super::endpoint::{Endpoint, Parameter, ParameterLocation};
use super::problem::Problem;
use super::schema::{RequestBounds, Schema};
use getid_redis::resp::parse_integer;
use getid_text::percent::decode_form;
use getid_text::printable::printable_up_to;
use getid_text::suggest::did_you_mean;

/// The parameters of a query, each of which its endpoint has.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(&'static str, Value)>);

impl Query {
    /// Returns the text of this parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// Returns the number of this parameter.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.value(name)?.as_i64()
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }
}

impl Endpoint {
    /// Parses a query by this row.
    ///
    /// # Errors
    ///
    /// 400 that names the parameter, the value and what is expected.
    pub(super) fn query(&self, query: Option<&str>, bounds: RequestBounds) -> Result<Query, Problem> {
        let mut found = Query::default();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, text) = (decoded(name)?, decoded(text)?);
            let parameter = self.parameter(&name)?;
            if found.0.iter().any(|(own, _)| *own == parameter.name) {
                return Err(Problem::bad(format!("the query has '{name}' more than once; send it once")));
            }
            found.0.push((parameter.name, parameter.read(&text, bounds)?));
        }
        let missing = self.parameters.iter().find(|parameter| {
            parameter.location == ParameterLocation::Query { is_required: true }
                && !found.0.iter().any(|(own, _)| *own == parameter.name)
        });
        missing.map_or(Ok(found), |Parameter { name, schema, .. }| {
            Err(Problem::bad(format!("the query has no '{name}', which is required: {}", schema.expected(bounds))))
        })
    }

    /// Checks the lengths of the path's parameters by the row. The command checks their characters.
    ///
    /// # Errors
    ///
    /// 400 with what is expected.
    pub(super) fn check_path(&self, values: &[String]) -> Result<(), Problem> {
        let own = self.parameters.iter().filter(|parameter| parameter.location == ParameterLocation::Path);
        own.zip(values).try_for_each(|(Parameter { schema, .. }, value)| {
            let Schema::Text { chars_max, .. } = schema else { return Ok(()) };
            // Each character takes at least a byte.
            if value.len() <= *chars_max || value.chars().count() <= *chars_max {
                return Ok(());
            }
            let (shown, expected) = (printable_up_to(value, 40), schema.expected(RequestBounds::default()));
            Err(Problem::bad(format!("'{shown}' in the path is too long, expected {expected}")))
        })
    }

    /// Returns the query parameter of this name.
    fn parameter(&self, name: &str) -> Result<&'static Parameter, Problem> {
        let mut known = self.parameters.iter().filter(|parameter| parameter.is_of_query());
        let names = known.clone().map(|parameter| parameter.name);
        known.find(|parameter| parameter.name == name).ok_or_else(|| {
            let names: Vec<_> = names.collect();
            let meant = did_you_mean(name, names.iter().copied());
            let known = match (meant, names.as_slice()) {
                (Some(meant), _) => format!("did you mean '{meant}'?"),
                (None, []) => "this path has no query parameters".to_owned(),
                (None, names) => format!("expected one of: {}", names.join(", ")),
            };
            Problem::bad(format!("unknown query parameter '{}'; {known}", printable_up_to(name, 40)))
        })
    }
}

impl Parameter {
    fn read(&self, text: &str, bounds: RequestBounds) -> Result<Value, Problem> {
        let value = match self.schema {
            // Digits with an optional minus; other forms of numbers are refused.
            Schema::Integer { .. } | Schema::Count(_) => parse_integer(text.as_bytes()).map(Value::from),
            schema => (text.is_empty() == matches!(schema, Schema::Flag)).then(|| Value::from(text)),
        };
        value.filter(|value| self.schema.check(value, bounds).is_ok()).ok_or_else(|| {
            let (name, expected) = (self.name, self.schema.expected(bounds));
            let found =
                if text.is_empty() { "is empty".to_owned() } else { format!("is '{}'", printable_up_to(text, 40)) };
            Problem::bad(format!("'{name}' of the query {found}, expected {expected}"))
        })
    }
}

/// Decodes text of forms and links: `%2F` is a slash, and a plus is a blank.
pub(super) fn decoded(text: &str) -> Result<Cow<'_, str>, Problem> {
    let decoded = match decode_form(text.as_bytes()) {
        Some(Cow::Borrowed(_)) => Some(Cow::Borrowed(text)),
        decoded => decoded.and_then(|bytes| String::from_utf8(bytes.into()).ok()).map(Cow::Owned),
    };
    decoded.ok_or_else(|| {
        let shown = printable_up_to(text, 40);
        Problem::bad(format!(
            "'{shown}' of the query is invalid: % needs two hex digits after it, and the decoded text must be UTF-8"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::{EndpointAccess, Method, in_path, optional, required};
    use super::super::schema::TEXT;
    use super::*;

    const ROW: Endpoint = Endpoint {
        method: Method::Get,
        path: "/v1/things/{name}",
        tag: "",
        id: "things",
        summary: "Get a thing",
        description: "",
        access: EndpointAccess::Public,
        parameters: &[
            in_path("name", &TEXT, ""),
            required("from", &TEXT, ""),
            optional("count", &Schema::Count(|bounds| bounds.ids), ""),
            optional("all", &Schema::Flag, ""),
            optional("limit", &Schema::Integer { min: -5, max: 5 }, ""),
        ],
        body: None,
        responses: &[],
        problems: &[],
        route: |_| axum::routing::MethodRouter::new(),
    };

    fn read(query: &str) -> Result<Query, Problem> {
        ROW.query(Some(query), RequestBounds { ids: 100, values: 1000 })
    }

    #[test]
    fn parameters_are_read() {
        let query = read("count=100&from=a%20b%2fc+%C3%BC&&limit=-5").unwrap();
        assert_eq!(query.text("from"), Some("a b/c \u{fc}"));
        assert_eq!((query.number("count"), query.number("limit"), query.text("count")), (Some(100), Some(-5), None));
        assert_eq!(read("from=1").unwrap().number("count"), None);
        let flags = ["from=1&all", "all=&from=1", "from=1"].map(|query| read(query).unwrap().text("all").is_some());
        assert_eq!(flags, [true, true, false]);
    }

    #[test]
    fn errors_name_the_parameter() {
        for (query, text) in [
            ("", "the query has no 'from', which is required: a text of at least 0 characters"),
            ("from=", "'from' of the query is empty, expected a text of at least 0 characters"),
            ("from=a&count=", "'count' of the query is empty, expected an integer of 1 to 100"),
            ("from=a&count", "'count' of the query is empty, expected an integer of 1 to 100"),
            ("count=0", "'count' of the query is '0', expected an integer of 1 to 100"),
            ("count=101", "'count' of the query is '101', expected an integer of 1 to 100"),
            ("count=-1", "'count' of the query is '-1', expected an integer of 1 to 100"),
            ("count=+1", "'count' of the query is ' 1', expected an integer of 1 to 100"),
            ("count=1e1", "'count' of the query is '1e1', expected an integer of 1 to 100"),
            (
                "count=9999999999999999999",
                "'count' of the query is '9999999999999999999', expected an integer of 1 to 100",
            ),
            ("limit=6", "'limit' of the query is '6', expected an integer of -5 to 5"),
            ("count=1&count=1", "the query has 'count' more than once; send it once"),
            ("cuont=1", "unknown query parameter 'cuont'; did you mean 'count'?"),
            ("n%0aame=1", "unknown query parameter 'n\\name'; expected one of: from, count, all, limit"),
            ("name=1", "unknown query parameter 'name'; expected one of: from, count, all, limit"),
            ("from=a&all=1", "'all' of the query is '1', expected no value"),
            (
                "from=%2",
                "'%2' of the query is invalid: % needs two hex digits after it, and the decoded text must be UTF-8",
            ),
            (
                "from=%+1",
                "'%+1' of the query is invalid: % needs two hex digits after it, and the decoded text must be UTF-8",
            ),
            (
                "from=%ff",
                "'%ff' of the query is invalid: % needs two hex digits after it, and the decoded text must be UTF-8",
            ),
        ] {
            assert_eq!(read(query).expect_err(query).detail, text);
        }
        assert!(read(&format!("count={}", "9".repeat(5000))).unwrap_err().detail.len() < 200);
    }
}

//! The TypeScript types of Rust types.

use syn::{GenericArgument, PathArguments, Type};

/// String types of the wire, with their descriptions.
pub const TEXTS: [(&str, &str); 10] = [
    ("ChatId", "`chat_` and a ULID, made by the server."),
    ("MessageId", "`msg_` and a ULID, made by the server."),
    ("ConnectionId", "`conn_`, a ULID and the user's shard, made by the server."),
    ("UserId", "The `sub` of a token: the application's id of a user."),
    ("DeviceId", "One device or browser tab of a user."),
    ("NodeId", "One running server process."),
    ("RequestId", "The id of a request, repeated in its reply."),
    ("ClientMessageId", "The sender's id of a message, the same in every retry."),
    ("Timestamp", "ISO 8601 in UTC, with milliseconds."),
    ("Token", "A JWT."),
];

/// A field's type, and whether it may be absent or null.
pub fn field(rust: &Type) -> (String, bool) {
    match generic(rust) {
        Some((name, arguments)) if name == "Option" => (written(arguments[0]), true),
        _ => (written(rust), false),
    }
}

/// The TypeScript type of a Rust type.
pub fn written(rust: &Type) -> String {
    if let Some((name, arguments)) = generic(rust) {
        return match name.as_str() {
            "Box" => written(arguments[0]),
            "Vec" => format!("{}[]", written(arguments[0])),
            "BTreeMap" => format!("Record<{}, {}>", written(arguments[0]), written(arguments[1])),
            unknown => panic!("{unknown} is not supported for TypeScript"),
        };
    }
    let Type::Path(path) = rust else { panic!("only paths are types of the wire") };
    match path.path.segments.last().unwrap().ident.to_string().as_str() {
        "String" => "string".to_owned(),
        "bool" => "boolean".to_owned(),
        "u16" | "u32" | "u64" | "usize" => "number".to_owned(),
        "Value" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

fn generic(rust: &Type) -> Option<(String, Vec<&Type>)> {
    let Type::Path(path) = rust else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(rust) => Some(rust),
        _ => None,
    });
    Some((last.ident.to_string(), types.collect()))
}

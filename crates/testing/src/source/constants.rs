//! The names, values and doc comments of the constants of a source file.

use std::path::Path;
use std::sync::LazyLock;

use syn::{BinOp, Expr, ExprCall, File, Item, Lit};

use super::attributes;

/// The beginning of a link to a limit in doc comments.
const LIMIT_LINK: &str = "[`crate::limits::";

static LIMITS: LazyLock<Vec<Constant>> = LazyLock::new(|| {
    of(&file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/src/limits.rs"))))
});

/// A constant.
#[derive(Debug)]
pub struct Constant {
    /// Its name in Rust.
    pub name: String,
    /// Its value, with the unit if it is a duration.
    pub value: String,
    /// Its doc comment.
    pub doc: String,
}

/// A source file.
pub fn file(path: &Path) -> File {
    let source = std::fs::read_to_string(path);
    let source = source.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    syn::parse_file(&source).unwrap()
}

/// The numbers and durations of a file, in its order.
pub fn of(file: &File) -> Vec<Constant> {
    let constant = |item: &Item| {
        let Item::Const(item) = item else { return None };
        let (name, doc) = (item.ident.to_string(), attributes::text(&item.attrs));
        Some(Constant { name, value: value(&item.expr)?, doc })
    };
    file.items.iter().filter_map(constant).collect()
}

/// The limit of this name.
pub fn limit(name: &str) -> &'static Constant {
    let found = LIMITS.iter().find(|limit| limit.name == name);
    found.unwrap_or_else(|| panic!("there is no limit {name}"))
}

/// A text in which every link to a limit is replaced by the value of the limit.
pub fn filled_in(text: &str) -> String {
    let mut filled = String::new();
    let mut parts = text.split(LIMIT_LINK);
    filled.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once("`]").unwrap();
        filled.push_str(&limit(name).value);
        filled.push_str(rest);
    }
    filled
}

/// The value of a number, or of a duration with its unit; none for other expressions.
pub fn value(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Call(call) => duration(call),
        expression => number(expression).map(|number| number.to_string()),
    }
}

fn duration(call: &ExprCall) -> Option<String> {
    let Expr::Path(function) = &*call.func else { return None };
    let count = number(call.args.first()?)?;
    let milliseconds = match function.path.segments.last()?.ident.to_string().as_str() {
        "from_secs" => count * 1000,
        "from_millis" => count,
        _ => return None,
    };
    let units = [("h", 3_600_000), ("s", 1000), ("ms", 1)];
    let (unit, size) = units.into_iter().find(|(_, size)| milliseconds % size == 0)?;
    Some(format!("{} {unit}", milliseconds / size))
}

fn number(expression: &Expr) -> Option<u64> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Binary(product) if matches!(product.op, BinOp::Mul(_)) => {
            Some(number(&product.left)? * number(&product.right)?)
        }
        _ => None,
    }
}

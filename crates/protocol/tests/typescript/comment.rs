//! Doc comments as TypeScript writes them.

use syn::Attribute;

use heartline_testing::source::attributes;

/// The doc comment of an item, with this indentation.
pub(crate) fn doc(attributes: &[Attribute], indent: &str) -> String {
    let text = attributes::text(attributes);
    if text.is_empty() { String::new() } else { wrapped(&text, indent) }
}

fn wrapped(text: &str, indent: &str) -> String {
    let one = format!("{indent}/** {text} */\n");
    if one.trim_end().chars().count() <= 100 {
        return one;
    }
    let mut comment = format!("{indent}/**\n");
    let mut line = format!("{indent} *");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 100 {
            comment.push_str(&line);
            comment.push('\n');
            line = format!("{indent} *");
        }
        line.push(' ');
        line.push_str(word);
    }
    format!("{comment}{line}\n{indent} */\n")
}

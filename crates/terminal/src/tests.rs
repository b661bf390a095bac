use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    connect: ConnectArgs,
}

fn parse(arguments: &[&str]) -> Result<ConnectArgs, String> {
    CommandLine::try_parse_from(std::iter::once(&"connect").chain(arguments))
        .map(|line| line.connect)
        .map_err(|error| error.to_string())
}

#[test]
fn without_a_user_or_a_token_the_error_says_what_to_give() {
    let error = Tokens::find(&parse(&[]).unwrap(), Some(String::new())).unwrap_err();
    assert!(error.to_string().contains("give --user NAME"), "{error}");
    let arguments = parse(&["--user", "ana", "--data-dir", "/nonexistent"]).unwrap();
    let error = Tokens::find(&arguments, Some("t".to_owned())).unwrap_err();
    assert!(error.to_string().contains("run `heartline dev` first"), "{error}");
}

#[test]
fn an_argument_takes_precedence_over_the_variable() {
    let variable = || Some("from-variable".to_owned());
    let token = |arguments: &[&str]| {
        Tokens::find(&parse(arguments).unwrap(), variable()).unwrap().current().unwrap().0
    };
    assert_eq!(token(&[]), "from-variable");
    assert_eq!(token(&["--token", "from-argument"]), "from-argument");
}

#[test]
fn arguments_have_defaults_and_contradictions_are_rejected() {
    let arguments = parse(&[]).unwrap();
    assert_eq!(arguments.url, ["ws://127.0.0.1:7400"]);
    assert_eq!((arguments.auth, arguments.heartbeats), (AuthMethod::Header, false));
    assert!(parse(&["--hide-heartbeats", "--heartbeats"]).unwrap().heartbeats);
    assert!(!parse(&["--heartbeats", "--hide-heartbeats"]).unwrap().heartbeats);
    assert_eq!(parse(&["--url", "ws://a", "--url", "ws://b"]).unwrap().url.len(), 2);
    for rejected in [["--user", "a b"], ["--token", ""], ["--auth", "magic"], ["--device", ""]] {
        assert!(parse(&rejected).is_err(), "{rejected:?}");
    }
    let error = parse(&["--user", "ana", "--token", "secret"]).unwrap_err();
    assert!(error.contains("cannot be used with"), "{error}");
    assert!(!format!("{:?}", parse(&["--token", "secret"]).unwrap()).contains("secret"));
}

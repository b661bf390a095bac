//! A Lua script that Redis runs as one atomic step.

use redis::{Cmd, ToRedisArgs, cmd};

/// A script and the hash by which Redis remembers it.
#[derive(Debug, Clone)]
pub struct Script {
    code: String,
    hash: String,
}

impl Script {
    /// A script.
    pub fn new(code: impl Into<String>) -> Self {
        let code = code.into();
        let hash = redis::Script::new(&code).get_hash().to_owned();
        Self { code, hash }
    }

    /// The call by hash. All keys must be in the slot of the first.
    pub fn call(&self, keys: impl ToRedisArgs, arguments: impl ToRedisArgs) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(&self.hash).arg(keys.num_of_args()).arg(keys).arg(arguments);
        command
    }

    /// The same call with the whole script, which Redis remembers from then on.
    pub(super) fn call_in_full(&self, call: &Cmd) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(&self.code);
        for argument in call.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }
}

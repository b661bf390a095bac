//! Random sessions, in which the invariants must hold.

use proptest::prelude::*;

use super::invariants::{Step, Walk};
use super::*;

fn step() -> impl Strategy<Value = Step> {
    let chosen =
        (any::<u8>(), any::<u16>()).prop_map(|(kind, value)| Step::from_numbers(kind, value));
    prop_oneof![20 => chosen, 1 => "\\PC{0,60}".prop_map(Step::Says)]
}

proptest! {
    #[test]
    fn a_guest_can_say_and_do_anything(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut walk = Walk::new(seed, start());
        steps.into_iter().for_each(|step| walk.step(step));
    }

    #[test]
    fn an_admitted_client_can_say_and_do_anything(
        seed in any::<u64>(),
        life in 0_u64..200,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut walk = Walk::new(seed, start());
        walk.step(Step::Says(AUTHENTICATE.to_owned()));
        walk.step(Step::Response(7, seconds(life)));
        walk.step(Step::Response(7, seconds(life)));
        steps.into_iter().for_each(|step| walk.step(step));
    }
}

//! The schema, and the documents of existing clients.

use serde_json::json;

use super::{Party, Reply, World, item, refusal};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.graphql");

#[test]
fn the_committed_schema_is_what_the_crate_declares() {
    let declared = Party::sdl();
    if std::env::var_os("HEARTLINE_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(PATH, &declared).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(PATH).unwrap_or_default(),
        declared,
        "schema.graphql is old: HEARTLINE_GOLDEN=write cargo test -p heartline-party schema \
         writes it"
    );
}

const ITEM: &str = "fragment Item on ClimbQueueItem {
    uuid addedBy addedByUser { id username avatarUrl } tickedBy suggested
    climb { uuid layoutId setter_username name description frames angle ascensionist_count
        difficulty quality_average stars difficulty_error litUpHoldsMap mirrored
        benchmark_difficulty userAscents userAttempts boardType } }";

const EVENT: &str = "__typename
    ... on FullSync { sequence state { sequence stateHash queue { ...Item }
        currentClimbQueueItem { ...Item } } }
    ... on QueueItemAdded { sequence addedItem: item { ...Item } position }
    ... on QueueItemRemoved { sequence uuid }
    ... on QueueReordered { sequence uuid oldIndex newIndex }
    ... on CurrentClimbChanged { sequence currentItem: item { ...Item } clientId correlationId }
    ... on ClimbMirrored { sequence mirrored }";

const SESSION: &str = "id name boardPath isLeader clientId goal isPublic startedAt endedAt
    isPermanent color users { id username isLeader avatarUrl }
    queueState { sequence stateHash queue { ...Item } currentClimbQueueItem { ...Item } }";

const SUMMARY: &str = "sessionId totalSends totalAttempts gradeDistribution { grade count }
    hardestClimb { climbUuid climbName grade }
    participants { userId displayName avatarUrl sends attempts }
    startedAt endedAt durationMinutes goal";

const DISCOVERED: &str = "id name boardPath latitude longitude createdAt createdByUserId
    participantCount distance isActive goal isPublic isPermanent color";

fn with_item(document: impl std::fmt::Display) -> String {
    format!("{document} {ITEM}")
}

fn memberships() -> Vec<String> {
    vec![
        with_item(format!(
            "mutation JoinSession($sessionId: ID!, $boardPath: String!, $username: String,
                $avatarUrl: String, $initialQueue: [ClimbQueueItemInput!],
                $initialCurrentClimb: ClimbQueueItemInput, $sessionName: String) {{
                joinSession(sessionId: $sessionId, boardPath: $boardPath, username: $username,
                    avatarUrl: $avatarUrl, initialQueue: $initialQueue,
                    initialCurrentClimb: $initialCurrentClimb, sessionName: $sessionName) {{
                    {SESSION} }} }}"
        )),
        with_item(format!(
            "mutation CreateSession($input: CreateSessionInput!) {{
                createSession(input: $input) {{ {SESSION} }} }}"
        )),
        format!(
            "mutation EndSession($sessionId: ID!) {{
                endSession(sessionId: $sessionId) {{ {SUMMARY} }} }}"
        ),
        "mutation($username: String!, $avatarUrl: String) {
            updateUsername(username: $username, avatarUrl: $avatarUrl) }"
            .to_owned(),
    ]
}

fn edits() -> Vec<String> {
    vec![
        with_item(
            "mutation AddQueueItem($item: ClimbQueueItemInput!, $position: Int) {
                addQueueItem(item: $item, position: $position) { ...Item } }"
                .to_owned(),
        ),
        "mutation($uuid: ID!) { removeQueueItem(uuid: $uuid) }".to_owned(),
        "mutation($uuid: ID!, $oldIndex: Int!, $newIndex: Int!) {
            reorderQueueItem(uuid: $uuid, oldIndex: $oldIndex, newIndex: $newIndex) }"
            .to_owned(),
        with_item(
            "mutation($item: ClimbQueueItemInput, $shouldAddToQueue: Boolean,
                $correlationId: ID, $needed: Boolean!) {
                setCurrentClimb(item: $item, shouldAddToQueue: $shouldAddToQueue,
                    correlationId: $correlationId) { ...Item @include(if: $needed) } }"
                .to_owned(),
        ),
        with_item(
            "mutation($mirrored: Boolean!) { mirrorCurrentClimb(mirrored: $mirrored) { ...Item } }"
                .to_owned(),
        ),
        with_item(
            "mutation($uuid: ID!, $item: ClimbQueueItemInput!) {
                replaceQueueItem(uuid: $uuid, item: $item) { ...Item } }"
                .to_owned(),
        ),
        with_item(
            "mutation($queue: [ClimbQueueItemInput!]!, $current: ClimbQueueItemInput) {
                setQueue(queue: $queue, currentClimbQueueItem: $current) { sequence stateHash
                    queue { ...Item } currentClimbQueueItem { ...Item } } }"
                .to_owned(),
        ),
    ]
}

fn queries_and_subscriptions() -> Vec<String> {
    vec![
        with_item(format!(
            "query($sessionId: ID!) {{ session(sessionId: $sessionId) {{ {SESSION} }} }}"
        )),
        with_item(format!(
            "query($sessionId: ID!, $sinceSequence: Int!) {{
                eventsReplay(sessionId: $sessionId, sinceSequence: $sinceSequence) {{
                    currentSequence events {{ {EVENT} }} }} }}"
        )),
        format!(
            "query($latitude: Float!, $longitude: Float!, $radiusMeters: Float) {{
                nearbySessions(latitude: $latitude, longitude: $longitude,
                    radiusMeters: $radiusMeters) {{ {DISCOVERED} }}
                mySessions {{ {DISCOVERED} }} }}"
        ),
        format!("query($id: ID!) {{ sessionSummary(sessionId: $id) {{ {SUMMARY} }} }}"),
        with_item(format!(
            "subscription($sessionId: ID!) {{ queueUpdates(sessionId: $sessionId) {{ {EVENT} }} }}"
        )),
        "subscription($sessionId: ID!) { sessionUpdates(sessionId: $sessionId) { __typename
            ... on UserJoined { user { id username isLeader avatarUrl } }
            ... on UserLeft { userId } ... on LeaderChanged { leaderId }
            ... on SessionEnded { reason newPath }
            ... on SessionStatsUpdated { sessionId totalSends totalFlashes totalAttempts tickCount
                participants { userId displayName avatarUrl sends flashes attempts }
                gradeDistribution { grade flash send attempt } boardTypes hardestGrade
                durationMinutes goal ticks { uuid userId climbUuid climbName boardType layoutId
                    angle status attemptCount difficulty difficultyName quality isMirror
                    isBenchmark comment frames setterUsername climbedAt } } } }"
            .to_owned(),
    ]
}

/// All documents of existing clients. None is run: each lacks the variables that it declares, which
/// is reported only for valid documents.
#[tokio::test]
async fn the_documents_of_existing_clients_are_valid() {
    let world = World::of(1).await;
    let client = world.connect(0, None);
    let documents = [memberships(), edits(), queries_and_subscriptions()].concat();
    for document in documents {
        let reply = client.reply(&document, json!({})).await;
        let (code, message) = refusal(&reply);
        assert!(matches!(reply, Reply::Next(_)), "{message} in {document}");
        assert_eq!(code, "INVALID_MESSAGE");
        assert!(message.contains("was not provided"), "{message} in {document}");
    }
}

#[tokio::test]
async fn invalid_variables_give_a_reply_without_data() {
    let world = World::of(1).await;
    let [client] = world.party("party-1").await;
    let mut wrong = item(1);
    wrong["climb"]["layoutId"] = json!(1);
    for variables in [json!({ "item": wrong }), json!({ "item": 7 }), json!({})] {
        let Reply::Next(json) = client.reply(super::ADD, variables).await else {
            panic!("the document is valid")
        };
        let reply: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(reply.get("data"), None);
        assert_eq!(reply["errors"][0]["extensions"]["code"], "INVALID_MESSAGE");
    }
}

#[tokio::test]
async fn the_schema_can_be_introspected() {
    let world = World::of(1).await;
    let query = "{ __schema { queryType { name } types { name kind fields { name args { name
        type { ...Kind } } type { ...Kind } } } } }
        fragment Kind on __Type { kind name ofType { kind name ofType { kind name ofType { kind
            name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
            } } } } } } } }";
    let reply = world.connect(0, None).ask(query, json!(null)).await;
    let types = reply["__schema"]["types"].as_array().unwrap();
    let names: Vec<_> = types.iter().filter_map(|kind| kind["name"].as_str()).collect();
    for name in ["Session", "ClimbQueueItem", "QueueEvent", "SessionStatsUpdated", "JSON"] {
        assert!(names.contains(&name), "{name} is not declared");
    }
    assert!(!names.contains(&"Delta"), "a flattened struct is not a type");
}

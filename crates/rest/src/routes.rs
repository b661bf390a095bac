//! Every route: what it does, for whom, with what, and how it is answered.

use heartline_protocol::ErrorCode::{
    ChatHalted, Conflict, Forbidden, InternalError, NotAMember, NotFound, RateLimited, ServerBusy,
    ServiceUnavailable,
};

use super::openapi::{Operation, Parameter, Routes};
use super::{
    admin, chats, contacts, health, members, messages, metrics, metrics_for_services, page,
    presence, push, users, visibility,
};

const CHATS: &str = "/v1/chats";
const CHAT: &str = "/v1/chats/{chat_id}";
const MEMBERS: &str = "/v1/chats/{chat_id}/members";
const MEMBER: &str = "/v1/chats/{chat_id}/members/{user_id}";
const LEAVE: &str = "/v1/chats/{chat_id}/leave";
const MESSAGES: &str = "/v1/chats/{chat_id}/messages";
const DELIVERY: &str = "/v1/chats/{chat_id}/delivery";
const ME: &str = "/v1/users/me";
const USER: &str = "/v1/users/{user_id}";
const CONTACTS: &str = "/v1/contacts";
const CONTACT: &str = "/v1/contacts/{user_id}";
const PRESENCE: &str = "/v1/presence/{user_id}";
const PRESENCE_QUERY: &str = "/v1/presence/query";
const VISIBILITY: &str = "/v1/presence/visibility";
const CONNECTIONS: &str = "/v1/admin/users/{user_id}/connections";
const NODE_CONNECTIONS: &str = "/v1/admin/connections";
const CONNECTION: &str = "/v1/admin/connections/{connection_id}";

/// Every route of the main listener; `with_metrics` puts `/metrics` among them.
pub(super) fn routes(with_metrics: bool) -> Routes {
    let routes = add_operating(Routes::default());
    let routes = add_chats(routes);
    let routes = add_members(routes);
    let routes = add_messages(routes);
    let routes = add_users(routes);
    let routes = add_privacy(routes);
    let routes = add_back_end(routes);
    let counted = Operation::get("/metrics", "readMetrics", "Metrics, where they are configured.")
        .answers_text("Everything that is counted.", "application/openmetrics-text")
        .refuses(&[InternalError]);
    if with_metrics { routes.add(counted, metrics) } else { routes.describe(counted) }
}

fn add_operating(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get("/", "welcome", "The page for browsers; else where to begin.")
                .answers_text("A few words.", "text/plain"),
            page::index,
        )
        .add(
            Operation::get("/livez", "isLive", "Whether the process serves.")
                .answers(200, "It does.", "Health"),
            health::livez,
        )
        .add(
            Operation::get("/readyz", "isReady", "Whether the node is a good place to connect to.")
                .answers(200, "It is.", "Health")
                .answers(503, "It is not; `degraded` says why.", "Health"),
            health::readyz,
        )
}

fn add_chats(routes: Routes) -> Routes {
    routes
        .add(
            Operation::post(CHATS, "createChat", "Makes a chat, with the caller as its owner.")
                .for_tokens()
                .parameters(&[Parameter::Key])
                .body("CreateChat")
                .answers(201, "The new chat.", "Chat")
                .answers(200, "The direct chat of the pair, or the result of the key.", "Chat")
                .refuses(&[Conflict, ServerBusy]),
            chats::create,
        )
        .add(
            Operation::get(CHATS, "listChats", "The caller's chats, oldest first.")
                .for_tokens()
                .parameters(&[Parameter::Limit, Parameter::Cursor])
                .answers_page("Chats, with the newest message of each.", "ListedChat"),
            chats::list,
        )
        .add(
            Operation::get(CHAT, "readChat", "A chat with its members.")
                .for_tokens()
                .answers(200, "The chat.", "Chat")
                .refuses(&[NotAMember]),
            chats::read,
        )
        .add(
            Operation::patch(CHAT, "renameChat", "Renames a group; for owners and admins.")
                .for_tokens()
                .body("RenameChat")
                .answers(200, "The chat.", "Chat")
                .refuses(&[NotAMember, Forbidden, Conflict, ServerBusy]),
            chats::rename,
        )
        .add(
            Operation::delete(CHAT, "deleteChat", "Deletes a chat; for owners and `service`.")
                .for_tokens()
                .answers_nothing("It is no more.")
                .refuses(&[NotAMember, Forbidden, Conflict, ServerBusy]),
            chats::delete,
        )
}

fn add_members(routes: Routes) -> Routes {
    let refusals = &[NotAMember, Forbidden, NotFound, Conflict, ServerBusy];
    routes
        .add(
            Operation::post(MEMBERS, "addMember", "Adds a member; for owners and admins.")
                .for_tokens()
                .parameters(&[Parameter::Key])
                .body("AddMember")
                .answers(201, "The new member.", "ChatMember")
                .answers(200, "They were a member already.", "ChatMember")
                .refuses(&[NotAMember, Forbidden, Conflict, ServerBusy]),
            members::add,
        )
        .add(
            Operation::patch(MEMBER, "setRole", "Gives a member another role; for owners.")
                .for_tokens()
                .body("SetRole")
                .answers(200, "The member.", "ChatMember")
                .refuses(refusals),
            members::set_role,
        )
        .add(
            Operation::delete(MEMBER, "removeMember", "Removes a member; for owners and admins.")
                .for_tokens()
                .answers_nothing("They are gone.")
                .refuses(refusals),
            members::remove,
        )
        .add(
            Operation::post(LEAVE, "leaveChat", "Leaves a chat.")
                .for_tokens()
                .answers_nothing("The caller is gone.")
                .refuses(&[NotAMember, Conflict, ServerBusy]),
            members::leave,
        )
        .add(
            Operation::get(DELIVERY, "readDelivery", "How far each member has received.")
                .for_tokens()
                .answers_page("Every member; the number of those whom one may see.", "Delivery")
                .refuses(&[NotAMember]),
            members::delivery,
        )
}

fn add_messages(routes: Routes) -> Routes {
    use Parameter::{After, Before, Cursor, Limit};
    routes
        .add(
            Operation::get(MESSAGES, "listMessages", "A page of a chat, the newest unless said.")
                .for_tokens()
                .parameters(&[Before, After, Limit, Cursor])
                .answers_page("Messages, always in ascending order.", "Message")
                .refuses(&[NotAMember, ServerBusy]),
            messages::page,
        )
        .add(
            Operation::post(MESSAGES, "sendMessage", "Sends a message without a socket.")
                .for_tokens()
                .body("SendMessage")
                .answers(201, "It is stored and on its way.", "SentMessage")
                .answers(200, "An earlier attempt had stored it.", "SentMessage")
                .refuses(&[NotAMember, Forbidden, Conflict, RateLimited, ServerBusy, ChatHalted]),
            messages::send,
        )
}

fn add_users(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get(ME, "readMe", "The caller's own profile.").for_tokens().answers(
                200,
                "The profile.",
                "User",
            ),
            users::me,
        )
        .add(
            Operation::patch(ME, "updateMe", "Changes the caller's own profile.")
                .for_tokens()
                .body("UpdateUser")
                .answers(200, "The profile.", "User")
                .refuses(&[ServerBusy]),
            users::update_me,
        )
        .add(
            Operation::get(USER, "readUser", "A user's profile, also of one who never came.")
                .for_tokens()
                .answers(200, "The profile.", "User"),
            users::read,
        )
        .add(
            Operation::delete(USER, "deleteUser", "Deletes a person and what they wrote.")
                .for_services()
                .answers_nothing("They are forgotten; what they wrote is emptied soon.")
                .refuses(&[ServerBusy]),
            users::delete,
        )
}

fn add_privacy(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get(CONTACTS, "listContacts", "Whom the caller has put, by their ids.")
                .for_tokens()
                .parameters(&[Parameter::Limit, Parameter::Cursor])
                .answers_page("Contacts; whether they have put the caller is not told.", "Contact"),
            contacts::list,
        )
        .add(
            Operation::put(CONTACT, "putContact", "Makes a user a contact of the caller's.")
                .for_tokens()
                .answers_nothing("They are one.")
                .refuses(&[Conflict, ServerBusy]),
            contacts::put,
        )
        .add(
            Operation::delete(
                CONTACT,
                "removeContact",
                "Takes a user out of the caller's contacts.",
            )
            .for_tokens()
            .answers_nothing("They are none.")
            .refuses(&[ServerBusy]),
            contacts::remove,
        )
        .add(
            Operation::get(VISIBILITY, "readVisibility", "Who may see the caller's presence.")
                .for_tokens()
                .answers(200, "The choice, or what holds without one.", "VisibilitySetting"),
            visibility::read,
        )
        .add(
            Operation::put(
                VISIBILITY,
                "chooseVisibility",
                "Says who may see the caller's presence.",
            )
            .for_tokens()
            .body("VisibilitySetting")
            .answers(200, "The choice, in force at once.", "VisibilitySetting")
            .refuses(&[ServerBusy]),
            visibility::choose,
        )
        .add(
            Operation::get(PRESENCE, "readPresence", "Whether a user is online.")
                .for_tokens()
                .answers(200, "What the caller may see.", "Presence")
                .refuses(&[RateLimited]),
            presence::read,
        )
        .add(
            Operation::post(PRESENCE_QUERY, "queryPresence", "Whether users are online.")
                .for_tokens()
                .body("PresenceQuery")
                .answers_page("What the caller may see, in the order asked.", "Presence")
                .refuses(&[RateLimited]),
            presence::query,
        )
}

fn add_back_end(routes: Routes) -> Routes {
    routes
        .add(
            Operation::post("/v1/push", "push", "Sends an event to all devices of some users.")
                .for_services()
                .body("Push")
                .answers(200, "For how many connections it was queued.", "Pushed"),
            push::push,
        )
        .add(
            Operation::get("/v1/admin/nodes", "listNodes", "The live nodes.")
                .for_services()
                .answers_page("The nodes.", "Node"),
            admin::list_nodes,
        )
        .add(
            Operation::get("/v1/admin/metrics", "readNodeMetrics", "The metrics of this node.")
                .for_services()
                .answers_text("Everything that is counted.", "application/openmetrics-text"),
            metrics_for_services,
        )
        .add(
            Operation::get(NODE_CONNECTIONS, "listNodeConnections", "Connections of this node.")
                .for_services()
                .parameters(&[Parameter::Limit])
                .answers_page("Those with the most waiting first.", "NodeConnection"),
            admin::list_node_connections,
        )
        .add(
            Operation::get(CONNECTIONS, "listConnections", "The live connections of a user.")
                .for_services()
                .answers_page("The connections.", "Connection")
                .refuses(&[ServiceUnavailable]),
            admin::list_connections,
        )
        .add(
            Operation::delete(CONNECTIONS, "endConnections", "Ends all connections of a user.")
                .for_services()
                .answers(200, "How many were told to close.", "Ended"),
            admin::end_connections,
        )
        .add(
            Operation::delete(CONNECTION, "endConnection", "Ends a connection.")
                .for_services()
                .answers(200, "It was told to close.", "Ended")
                .refuses(&[NotFound]),
            admin::end_connection,
        )
}

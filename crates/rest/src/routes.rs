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
    let counted =
        Operation::get("/metrics", "readMetrics", "The metrics, if `metrics.listen` is `main`.")
            .answers_text("All metrics.", "application/openmetrics-text")
            .refuses(&[InternalError]);
    if with_metrics { routes.add(counted, metrics) } else { routes.describe(counted) }
}

fn add_operating(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get("/", "welcome", "The page for browsers; otherwise a short text.")
                .answers_text("The version and the node id.", "text/plain"),
            page::index,
        )
        .add(
            Operation::get("/livez", "isLive", "Whether the process runs.").answers(
                200,
                "The process runs.",
                "Health",
            ),
            health::livez,
        )
        .add(
            Operation::get("/readyz", "isReady", "Whether the node accepts new connections.")
                .answers(200, "The node is ready.", "Health")
                .answers(503, "The node is not ready; `degraded` lists the reasons.", "Health"),
            health::readyz,
        )
}

fn add_chats(routes: Routes) -> Routes {
    routes
        .add(
            Operation::post(CHATS, "createChat", "Creates a chat, with the caller as its owner.")
                .for_tokens()
                .parameters(&[Parameter::Key])
                .body("CreateChat")
                .answers(201, "The new chat.", "Chat")
                .answers(200, "The existing direct chat, or the result of the key.", "Chat")
                .refuses(&[Conflict, ServerBusy]),
            chats::create,
        )
        .add(
            Operation::get(CHATS, "listChats", "The caller's chats, oldest first.")
                .for_tokens()
                .parameters(&[Parameter::Limit, Parameter::Cursor])
                .answers_page("The chats, with the newest message of each.", "ListedChat"),
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
                .answers_nothing("The chat is deleted.")
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
                .answers(200, "The user was a member already.", "ChatMember")
                .refuses(&[NotAMember, Forbidden, Conflict, ServerBusy]),
            members::add,
        )
        .add(
            Operation::patch(MEMBER, "setRole", "Changes the role of a member; for owners.")
                .for_tokens()
                .body("SetRole")
                .answers(200, "The member.", "ChatMember")
                .refuses(refusals),
            members::set_role,
        )
        .add(
            Operation::delete(MEMBER, "removeMember", "Removes a member; for owners and admins.")
                .for_tokens()
                .answers_nothing("The member is removed.")
                .refuses(refusals),
            members::remove,
        )
        .add(
            Operation::post(LEAVE, "leaveChat", "Leaves a chat.")
                .for_tokens()
                .answers_nothing("The caller is no longer a member.")
                .refuses(&[NotAMember, Conflict, ServerBusy]),
            members::leave,
        )
        .add(
            Operation::get(DELIVERY, "readDelivery", "The watermark of each member.")
                .for_tokens()
                .answers_page("Every member, with the watermarks that are visible.", "Delivery")
                .refuses(&[NotAMember]),
            members::delivery,
        )
}

fn add_messages(routes: Routes) -> Routes {
    use Parameter::{After, Before, Cursor, Limit};
    routes
        .add(
            Operation::get(MESSAGES, "listMessages", "A page of messages, by default the newest.")
                .for_tokens()
                .parameters(&[Before, After, Limit, Cursor])
                .answers_page("The messages, always in ascending order.", "Message")
                .refuses(&[NotAMember, ServerBusy]),
            messages::page,
        )
        .add(
            Operation::post(MESSAGES, "sendMessage", "Sends a message without a socket.")
                .for_tokens()
                .body("SendMessage")
                .answers(201, "The message is stored and announced.", "SentMessage")
                .answers(200, "An earlier attempt had stored the message.", "SentMessage")
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
            Operation::get(USER, "readUser", "A user's profile, also of an unknown user.")
                .for_tokens()
                .answers(200, "The profile.", "User"),
            users::read,
        )
        .add(
            Operation::delete(USER, "deleteUser", "Deletes a user and their messages.")
                .for_services()
                .answers_nothing("The user is deleted; their messages are emptied soon.")
                .refuses(&[ServerBusy]),
            users::delete,
        )
}

fn add_privacy(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get(CONTACTS, "listContacts", "The caller's contacts, ordered by user id.")
                .for_tokens()
                .parameters(&[Parameter::Limit, Parameter::Cursor])
                .answers_page("The contacts, without whether they added the caller.", "Contact"),
            contacts::list,
        )
        .add(
            Operation::put(CONTACT, "putContact", "Adds a user to the caller's contacts.")
                .for_tokens()
                .answers_nothing("The user is a contact.")
                .refuses(&[Conflict, ServerBusy]),
            contacts::put,
        )
        .add(
            Operation::delete(
                CONTACT,
                "removeContact",
                "Removes a user from the caller's contacts.",
            )
            .for_tokens()
            .answers_nothing("The user is not a contact.")
            .refuses(&[ServerBusy]),
            contacts::remove,
        )
        .add(
            Operation::get(VISIBILITY, "readVisibility", "Who may see the caller's presence.")
                .for_tokens()
                .answers(200, "The setting, or the default.", "VisibilitySetting"),
            visibility::read,
        )
        .add(
            Operation::put(
                VISIBILITY,
                "chooseVisibility",
                "Sets who may see the caller's presence.",
            )
            .for_tokens()
            .body("VisibilitySetting")
            .answers(200, "The setting, valid at once.", "VisibilitySetting")
            .refuses(&[ServerBusy]),
            visibility::choose,
        )
        .add(
            Operation::get(PRESENCE, "readPresence", "Whether a user is online.")
                .for_tokens()
                .answers(200, "The presence, as far as the caller may see it.", "Presence")
                .refuses(&[RateLimited]),
            presence::read,
        )
        .add(
            Operation::post(PRESENCE_QUERY, "queryPresence", "Whether users are online.")
                .for_tokens()
                .body("PresenceQuery")
                .answers_page("The presence of each user, in the order of the query.", "Presence")
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
                .answers(200, "The number of connections for which it was queued.", "Pushed"),
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
                .answers_text("All metrics.", "application/openmetrics-text"),
            metrics_for_services,
        )
        .add(
            Operation::get(NODE_CONNECTIONS, "listNodeConnections", "Connections of this node.")
                .for_services()
                .parameters(&[Parameter::Limit])
                .answers_page("The connections, fullest outbox first.", "NodeConnection"),
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
                .answers(200, "The number of connections that are being closed.", "Ended"),
            admin::end_connections,
        )
        .add(
            Operation::delete(CONNECTION, "endConnection", "Ends a connection.")
                .for_services()
                .answers(200, "The connection is being closed.", "Ended")
                .refuses(&[NotFound]),
            admin::end_connection,
        )
}

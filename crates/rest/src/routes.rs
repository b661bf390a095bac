//! All routes of the main listener, each with its description.

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
            .returns_text("All metrics.", "application/openmetrics-text")
            .fails_with(&[InternalError]);
    if with_metrics { routes.add(counted, metrics) } else { routes.describe(counted) }
}

fn add_operating(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get("/", "welcome", "The page for browsers; otherwise a short text.")
                .returns_text("The version and the node id.", "text/plain"),
            page::index,
        )
        .add(
            Operation::get("/livez", "isLive", "Whether the process runs.").returns(
                200,
                "The process runs.",
                "Health",
            ),
            health::livez,
        )
        .add(
            Operation::get("/readyz", "isReady", "Whether the node accepts new connections.")
                .returns(200, "The node is ready.", "Health")
                .returns(503, "The node is not ready; `degraded` lists the reasons.", "Health"),
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
                .returns(201, "The new chat.", "Chat")
                .returns(200, "The existing direct chat, or the result of the key.", "Chat")
                .fails_with(&[Conflict, ServerBusy]),
            chats::create,
        )
        .add(
            Operation::get(CHATS, "listChats", "The caller's chats, oldest first.")
                .for_tokens()
                .parameters(&[Parameter::Limit, Parameter::Cursor])
                .returns_page("The chats, with the newest message of each.", "ListedChat"),
            chats::list,
        )
        .add(
            Operation::get(CHAT, "readChat", "A chat with its members.")
                .for_tokens()
                .returns(200, "The chat.", "Chat")
                .fails_with(&[NotAMember]),
            chats::read,
        )
        .add(
            Operation::patch(CHAT, "renameChat", "Renames a group; for owners and admins.")
                .for_tokens()
                .body("RenameChat")
                .returns(200, "The chat.", "Chat")
                .fails_with(&[NotAMember, Forbidden, Conflict, ServerBusy]),
            chats::rename,
        )
        .add(
            Operation::delete(CHAT, "deleteChat", "Deletes a chat; for owners and `service`.")
                .for_tokens()
                .returns_nothing("The chat is deleted.")
                .fails_with(&[NotAMember, Forbidden, Conflict, ServerBusy]),
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
                .returns(201, "The new member.", "ChatMember")
                .returns(200, "The user was a member already.", "ChatMember")
                .fails_with(&[NotAMember, Forbidden, Conflict, ServerBusy]),
            members::add,
        )
        .add(
            Operation::patch(MEMBER, "setRole", "Changes the role of a member; for owners.")
                .for_tokens()
                .body("SetRole")
                .returns(200, "The member.", "ChatMember")
                .fails_with(refusals),
            members::set_role,
        )
        .add(
            Operation::delete(MEMBER, "removeMember", "Removes a member; for owners and admins.")
                .for_tokens()
                .returns_nothing("The member is removed.")
                .fails_with(refusals),
            members::remove,
        )
        .add(
            Operation::post(LEAVE, "leaveChat", "Leaves a chat.")
                .for_tokens()
                .returns_nothing("The caller is no longer a member.")
                .fails_with(&[NotAMember, Conflict, ServerBusy]),
            members::leave,
        )
        .add(
            Operation::get(DELIVERY, "readDelivery", "The watermark of each member.")
                .for_tokens()
                .returns_page("Every member, with the watermarks that are visible.", "Delivery")
                .fails_with(&[NotAMember]),
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
                .returns_page("The messages, always in ascending order.", "Message")
                .fails_with(&[NotAMember, ServerBusy]),
            messages::page,
        )
        .add(
            Operation::post(MESSAGES, "sendMessage", "Sends a message without a socket.")
                .for_tokens()
                .body("SendMessage")
                .returns(201, "The message is stored and announced.", "SentMessage")
                .returns(200, "An earlier attempt had stored the message.", "SentMessage")
                .fails_with(&[
                    NotAMember,
                    Forbidden,
                    Conflict,
                    RateLimited,
                    ServerBusy,
                    ChatHalted,
                ]),
            messages::send,
        )
}

fn add_users(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get(ME, "readMe", "The caller's own profile.").for_tokens().returns(
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
                .returns(200, "The profile.", "User")
                .fails_with(&[ServerBusy]),
            users::update_me,
        )
        .add(
            Operation::get(USER, "readUser", "A user's profile, also of an unknown user.")
                .for_tokens()
                .returns(200, "The profile.", "User"),
            users::read,
        )
        .add(
            Operation::delete(USER, "deleteUser", "Deletes a user and their messages.")
                .for_services()
                .returns_nothing("The user is deleted; their messages are emptied soon.")
                .fails_with(&[ServerBusy]),
            users::delete,
        )
}

fn add_privacy(routes: Routes) -> Routes {
    routes
        .add(
            Operation::get(CONTACTS, "listContacts", "The caller's contacts, ordered by user id.")
                .for_tokens()
                .parameters(&[Parameter::Limit, Parameter::Cursor])
                .returns_page("The contacts, without whether they added the caller.", "Contact"),
            contacts::list,
        )
        .add(
            Operation::put(CONTACT, "putContact", "Adds a user to the caller's contacts.")
                .for_tokens()
                .returns_nothing("The user is a contact.")
                .fails_with(&[Conflict, ServerBusy]),
            contacts::put,
        )
        .add(
            Operation::delete(
                CONTACT,
                "removeContact",
                "Removes a user from the caller's contacts.",
            )
            .for_tokens()
            .returns_nothing("The user is not a contact.")
            .fails_with(&[ServerBusy]),
            contacts::remove,
        )
        .add(
            Operation::get(VISIBILITY, "readVisibility", "Who may see the caller's presence.")
                .for_tokens()
                .returns(200, "The setting, or the default.", "VisibilitySetting"),
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
            .returns(200, "The setting, valid at once.", "VisibilitySetting")
            .fails_with(&[ServerBusy]),
            visibility::choose,
        )
        .add(
            Operation::get(PRESENCE, "readPresence", "Whether a user is online.")
                .for_tokens()
                .returns(200, "The presence, as far as the caller may see it.", "Presence")
                .fails_with(&[RateLimited]),
            presence::read,
        )
        .add(
            Operation::post(PRESENCE_QUERY, "queryPresence", "Whether users are online.")
                .for_tokens()
                .body("PresenceQuery")
                .returns_page("The presence of each user, in the order of the query.", "Presence")
                .fails_with(&[RateLimited]),
            presence::query,
        )
}

fn add_back_end(routes: Routes) -> Routes {
    routes
        .add(
            Operation::post("/v1/push", "push", "Sends an event to all devices of some users.")
                .for_services()
                .body("Push")
                .returns(200, "The number of connections for which it was queued.", "Pushed"),
            push::push,
        )
        .add(
            Operation::get("/v1/admin/nodes", "listNodes", "The live nodes.")
                .for_services()
                .returns_page("The nodes.", "Node"),
            admin::list_nodes,
        )
        .add(
            Operation::get("/v1/admin/metrics", "readNodeMetrics", "The metrics of this node.")
                .for_services()
                .returns_text("All metrics.", "application/openmetrics-text"),
            metrics_for_services,
        )
        .add(
            Operation::get(NODE_CONNECTIONS, "listNodeConnections", "Connections of this node.")
                .for_services()
                .parameters(&[Parameter::Limit])
                .returns_page("The connections, fullest outbox first.", "NodeConnection"),
            admin::list_node_connections,
        )
        .add(
            Operation::get(CONNECTIONS, "listConnections", "The live connections of a user.")
                .for_services()
                .returns_page("The connections.", "Connection")
                .fails_with(&[ServiceUnavailable]),
            admin::list_connections,
        )
        .add(
            Operation::delete(CONNECTIONS, "endConnections", "Ends all connections of a user.")
                .for_services()
                .returns(200, "The number of connections that are being closed.", "Ended"),
            admin::end_connections,
        )
        .add(
            Operation::delete(CONNECTION, "endConnection", "Ends a connection.")
                .for_services()
                .returns(200, "The connection is being closed.", "Ended")
                .fails_with(&[NotFound]),
            admin::end_connection,
        )
}

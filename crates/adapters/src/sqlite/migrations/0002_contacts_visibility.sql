-- Who has put whom as a contact, and whom each lets see their presence.

CREATE TABLE contacts (
    user_key INTEGER NOT NULL,
    contact_key INTEGER NOT NULL,
    PRIMARY KEY (user_key, contact_key)
) STRICT, WITHOUT ROWID;

-- For the going of a person, who is then nobody's contact.
CREATE INDEX contacts_by_contact ON contacts (contact_key);

-- NULL while nothing was chosen.
ALTER TABLE users ADD COLUMN visibility INTEGER;

CREATE INDEX chats_halted ON chats (chat_key) WHERE halted = 1;

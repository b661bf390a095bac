/** Client of the Heartline real-time server. */
export {};

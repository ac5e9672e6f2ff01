import PushRecords

/// A token is checked before it is used.
func tokenAsText() throws {
    let notification = PushNotification(AlertPayload(body: "News"))
    #if MISUSE
        // error: cannot convert value of type 'String' to expected argument type 'DeviceToken'
        _ = try notification.payloadRecord(to: "0a0b")
    #else
        _ = try notification.payloadRecord(to: DeviceToken(hex: "0a0b"))
    #endif
}

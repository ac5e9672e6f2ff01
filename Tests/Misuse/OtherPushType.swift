import PushRecords

/// The payload says what a notification is.
func otherPushType() {
    var notification = PushNotification(AlertPayload(body: "News"))
    #if MISUSE
        // error: cannot assign to property: 'pushType' is a get-only property
        notification.pushType = .background
    #else
        notification.payload.isContentAvailable = true
    #endif
}

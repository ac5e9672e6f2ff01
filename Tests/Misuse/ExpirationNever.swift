import PushRecords

/// No header is not: never.
func expirationNever() {
    var notification = PushNotification(AlertPayload(body: "News"))
    #if MISUSE
        // error: type 'PushExpiration' has no member 'never'
        notification.expiration = .never
    #else
        notification.expiration = .appleDefault
    #endif
}

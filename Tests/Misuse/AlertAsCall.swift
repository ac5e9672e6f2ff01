import PushRecords

/// A call is no alert, and its payload no other one's.
func alertAsCall() {
    #if MISUSE
        // error: requires that 'AlertPayload' conform to 'Collection'
        _ = PushNotification(AlertPayload(body: "Ada calls"), pushType: .voip)
    #else
        _ = PushNotification(VoIPPayload(["handle": "Ada"]))
    #endif
}

import PushRecords

/// Whether a suffix is still missing is said.
func topicAsText() {
    var notification = PushNotification(VoIPPayload(["handle": "Ada"]))
    #if MISUSE
        // error: cannot assign value of type 'String' to type 'PushTopic'
        notification.topic = "com.example.shop"
    #else
        notification.topic = .bundleID("com.example.shop")
    #endif
}

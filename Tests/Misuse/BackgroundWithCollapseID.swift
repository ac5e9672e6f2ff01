import PushRecords

/// Nothing is shown, so nothing is merged.
func backgroundWithCollapseID() {
    #if MISUSE
        var notification = PushNotification(BackgroundPayload())
        // error: property 'collapseID' requires that 'BackgroundPayload' conform to 'CollapsiblePayload'
        notification.collapseID = "news"
    #else
        var notification = PushNotification(AlertPayload(body: "News"))
        notification.collapseID = "news"
    #endif
}

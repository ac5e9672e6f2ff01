import PushRecords

/// An activity is updated, and not shown again.
func liveActivityWithCollapseID() {
    let update = LiveActivityUpdate(contentState: ["score": 1], timestamp: 1_790_000_000)
    var notification = PushNotification(update)
    #if MISUSE
        // error: property 'collapseID' requires that 'LiveActivityUpdate' conform to 'CollapsiblePayload'
        notification.collapseID = "match"
    #else
        notification.payload.relevanceScore = 100
    #endif
}

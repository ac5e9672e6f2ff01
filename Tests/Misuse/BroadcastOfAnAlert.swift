import PushRecords

/// Channels are for Live Activities.
func broadcastOfAnAlert() throws {
    let channel = "dHN0LXNyY2gtY2hubA=="
    #if MISUSE
        let notification = PushNotification(AlertPayload(body: "News"))
        // error: requires that 'AlertPayload' conform to 'BroadcastPayload'
        _ = try notification.payloadRecord(toChannel: channel)
    #else
        let update = LiveActivityUpdate(contentState: ["score": 1], timestamp: 1_790_000_000)
        _ = try PushNotification(update).payloadRecord(toChannel: channel)
    #endif
}

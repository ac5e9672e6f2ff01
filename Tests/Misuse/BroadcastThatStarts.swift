import PushRecords

/// "You can't use broadcast push notifications to start a Live Activity."
func broadcastThatStarts() throws {
    let channel = "dHN0LXNyY2gtY2hubA=="
    let alert = LiveActivityAlert(title: "Ajax – PSV", body: "Kick-off")
    #if MISUSE
        let start = LiveActivityStart(
            attributesType: "Match", attributes: [:], contentState: [:], alert: alert, timestamp: 1_790_000_000)
        // error: requires that 'LiveActivityStart' conform to 'BroadcastPayload'
        _ = try PushNotification(start).envelopeRecord(toChannel: channel)
    #else
        let start = LiveActivityStart(
            attributesType: "Match", attributes: [:], contentState: [:], alert: alert, updates: .channel(channel),
            timestamp: 1_790_000_000)
        _ = try PushNotification(start).payloadRecord(to: DeviceToken(bytes: [1]))
    #endif
}

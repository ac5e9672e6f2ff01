import PushRecords

/// A Live Activity's sound is not critical.
func criticalLiveActivity() {
    var alert = LiveActivityAlert(title: "Goal!", body: "Ajax leads")
    #if MISUSE
        // error: type 'LiveActivityAlert.Sound?' has no member 'critical'
        alert.sound = .critical(volume: 1)
    #else
        alert.sound = .named("goal.caf")
    #endif
}

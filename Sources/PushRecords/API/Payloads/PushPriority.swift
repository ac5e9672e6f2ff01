/// When APNs delivers (`apns-priority`). Source: "Sending notification requests to APNs", apns-priority.
public enum PushPriority: UInt8, CaseIterable, Sendable {
    /// At once: 10, and what Apple does when it is told nothing.
    case immediate = 10
    /// When the device's power allows it: 5. Such notifications may come in groups, be throttled or not be delivered.
    case powerConsiderate = 5
    /// 1: the device's power goes before everything else, and the device is not woken.
    case withoutWaking = 1
}

/// The priorities of one kind of payload, as a type: what Apple calls an error does not compile.
public protocol PriorityChoice: Hashable, Sendable {
    /// The one among all.
    var priority: PushPriority { get }
}

extension PushPriority: PriorityChoice {
    /// Itself.
    public var priority: PushPriority { self }
}

/// The priority of a background notification: "Always use priority 5. Using priority 10 is an error."
///
/// Source: "Sending notification requests to APNs", `background`.
public enum BackgroundPriority: PriorityChoice {
    /// 5. It is what a background notification has anyway.
    case powerConsiderate

    /// The one among all.
    public var priority: PushPriority { .powerConsiderate }
}

/// The priorities of Live Activities and location queries: 10 or 5.
///
/// Source: "Starting and updating Live Activities with ActivityKit push notifications"; "Sending notification requests
/// to APNs", `location`.
public enum WakingPriority: PriorityChoice, CaseIterable {
    /// 10. Updates of Live Activities with it count towards a budget, and are throttled beyond it.
    case immediate
    /// 5. Such updates are not counted.
    case powerConsiderate

    /// The one among all.
    public var priority: PushPriority { self == .immediate ? .immediate : .powerConsiderate }
}

/// The priority of a Push to Talk notification: 10. Source: "Creating a Push to Talk app".
public enum ImmediatePriority: PriorityChoice {
    /// 10. It is what Apple takes when it is told nothing, too.
    case immediate

    /// The one among all.
    public var priority: PushPriority { .immediate }
}

import Bytes
@testable import Delivery
import PushRecords
import Testing

struct DeviceTableTests {
    @Test(arguments: 0..<20)
    func `The device table agrees with a dictionary, even with many hash collisions`(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var table = DeviceQueues.Table(capacity: 16)
        // The head slot of each device. Devices share hashes, and hashes share table places.
        var model: [Int: NotificationSlot] = [:]
        var devices: [NotificationSlot: Int] = [:]
        func newHead(_ device: Int) -> NotificationSlot {
            let head = NotificationSlot(UInt32(devices.count))
            devices[head] = device
            model[device] = head
            return head
        }
        func hash(_ device: Int) -> UInt32 { UInt32(device % 37) * 7 }
        for _ in 0..<800 {
            let device = Int.random(in: 0..<200, using: &random)
            let found = table.head(hash: hash(device)) { devices[$0] == device }
            #expect(found == model[device], "seed \(seed)")
            if let head = found {
                if Bool.random(using: &random) {
                    table.remove(hash: hash(device), head: head)
                    model[device] = nil
                } else {
                    table.replace(hash: hash(device), head: head, by: newHead(device))
                }
            } else {
                table.insert(hash: hash(device), head: newHead(device))
            }
            #expect(table.count == model.count)
        }
        for (device, head) in model { #expect(table.head(hash: hash(device)) { devices[$0] == device } == head) }
    }
}

struct OpenLimitTests {
    @Test(
        arguments: [
            (0, 1_000), (1, 1_003), (1_000, 4_000), (2_000, 7_000), (8_000, 13_000), (100_000, 20_000),
        ])
    func `The limit of open notifications grows with the number of streams, then more slowly, up to 20,000`(
        _ streams: Int, _ open: Int
    ) {
        #expect(MachineSettings().mostOpen(streams: streams) == open)
        let rig = Rig(capacity: streams)
        #expect(rig.machine.store.budget.notifications.total == open)
        rig.machine.setCapacity(AppIndex(0), requests: 0, now: rig.now)
        #expect(rig.machine.store.budget.notifications.total == 1_000)
    }

    @Test func `A lower configured limit applies with and without streams`() {
        for capacity in [0, 1_000] {
            #expect(Rig(capacity: capacity) { $0.maxOpen = 50 }.machine.store.budget.notifications.total == 50)
        }
    }
}

extension FairShares {
    /// Adds a group with one partition that is read.
    fileprivate mutating func addGroup(weight: Int) {
        setWeight(weight, of: groups.count)
        addPartitions(1, to: groups.count - 1)
    }
}

struct SharesTests {
    /// Returns the shares of groups with these weights, each with one partition.
    private static func shares(_ weights: Int...) -> FairShares {
        var shares = FairShares(total: 1_000)
        for weight in weights { shares.addGroup(weight: weight) }
        return shares
    }

    private static func rooms(_ shares: FairShares) -> [Int] { [shares.room(for: 0), shares.room(for: 1)] }

    @Test func `A flood of one topic leaves the other topic its reserve, by weight`() {
        var shares = Self.shares(1, 4)
        #expect(shares.room(for: 0) == 100 + 500)
        shares.add(600, to: 0)
        #expect(Self.rooms(shares) == [0, 400])
        shares.add(400, to: 1)
        #expect(shares.room(for: 1) == 0)
        shares.add(-1, to: 0)
        #expect(Self.rooms(shares) == [1, 1])
    }

    @Test func `One topic may use everything, and gets the reserve of topics that are not read`() {
        var shares = Self.shares(1)
        #expect(shares.room(for: 0) == 1_000)
        shares.addGroup(weight: 1)
        #expect(shares.room(for: 0) == 750)
        shares.add(750, to: 0)
        shares.addPartitions(-1, to: 1)
        #expect(Self.rooms(shares) == [250, 250])
    }

    @Test func `A topic that joins while another uses everything gets freed slots, up to its reserve`() {
        var shares = Self.shares(1)
        shares.add(1_000, to: 0)
        shares.addGroup(weight: 1)
        #expect(shares.room(for: 1) == 0)
        shares.add(-100, to: 0)
        #expect(Self.rooms(shares) == [0, 100])
    }

    @Test func `A new topic reuses the group of a removed topic once that has no open notification`() {
        var budget = AdmissionBudget(mostOpen: 1_000, mostBytes: 1 << 20)
        func read(_ topic: String) -> Int {
            let group = budget.group(of: topic, weight: 3)
            budget.setRead(true, group)
            return group
        }
        expect(read("a"), is: 1)
        budget.add(notifications: 1, group: 1, app: -1)
        budget.setRead(false, 1)
        expect(read("b"), is: 2)
        budget.add(notifications: -1, group: 1, app: -1)
        expect(read("c"), is: 1)
        expect(read("b"), is: 2)
        expect(read("a"), is: 3)
        #expect(budget.notifications.groups.map(\.weight) == [1, 3, 3, 3])
    }
}

struct RetryTierTests {
    @Test(
        arguments: [
            (30_000, 0, 0), (1, 0, 0), (900_000, 0, 1), (30_001, 0, 1), (7_200_001, 0, 2), (30_000, 30_000, 1),
            (30_000, 900_000, 2), (30_000, 7_200_000, 2), (900_000, 30_000, 1), (30_000, 60_000, 1),
        ] as [(Int64, Int64, Int)])
    func `A retry goes to the first tier with the requested delay, then to longer ones`(
        _ delayMs: Int64, _ previousMs: Int64, _ tier: Int
    ) {
        let tiers = RetryTiers([30_000, 900_000, 7_200_000])
        #expect(tiers.tier(delayMs: delayMs, previousMs: previousMs) == tier)
        #expect(RetryTiers([1_000]).tier(delayMs: delayMs, previousMs: previousMs) == 0)
    }

    @Test(arguments: [([1_000], 0), ([1_000, 60_000], 1), ([1_000, 900_000, 7_200_000], 1)] as [([Int64], Int)])
    func `Without a tier of 15 minutes, long deferrals go to the longest tier`(delays: [Int64], long: Int) {
        #expect(RetryTiers(delays).tier(delayMs: VerdictTable.longDelayMs, previousMs: 0) == long)
    }

    /// For each of four tiers: the tier that a retry goes to if this one cannot be written, and the tiers of
    /// notifications due in 8, 9, 98 and 99 s, and never.
    @Test(
        arguments: [
            ([true, true, true, true], [0, 1, 2, 3], [0, 1, 1, 2, 3]),
            ([false, true, false, true], [1, 1, 3, 3], [1, 1, 1, 1, 3]),
            ([true, true, false, false], [0, 1, 1, 1], [0, 1, 1, 1, 1]),
            ([false, false, false, false], [0, 1, 2, 3], [0, 1, 1, 2, 3]),
            ([false, false, false, true], [3, 3, 3, 3], [3, 3, 3, 3, 3]),
        ] as [([Bool], [Int], [Int])])
    func `An unwritable tier is replaced by the next longer one, else the next shorter one`(
        writable: [Bool], retries: [Int], scheduled: [Int]
    ) {
        var tiers = RetryTiers([1_000, 10_000, 100_000, 1_000_000])
        tiers.setWritable(writable)
        #expect((0..<4).map { tiers.writable($0) } == retries)
        // A scheduled notification takes the next shorter tier, which then passes it on, or else the next longer one.
        #expect([8_000, 9_000, 98_999, 99_000, .max].map { tiers.tier(dueInMs: $0) } == scheduled)
        expect(tiers.isAnyWritable, is: writable.contains(true))
        #expect(tiers.writable(0) == (writable.firstIndex(of: true) ?? 0))
    }
}

struct AppDirectoryTests {
    static let routes = [
        AppRoute(name: "shop", environment: .production, bundleIDs: ["com.example.shop"]),
        AppRoute(name: "shop-dev", environment: .development, bundleIDs: ["com.example.shop"]),
        AppRoute(name: "news", environment: .production, bundleIDs: ["com.example.news", "com.example.paper"]),
    ]

    struct Case: CustomTestStringConvertible {
        var name = ""
        var environment: PushEnvironment?
        var topic = ""
        /// The expected app and topic, or Apple's reason.
        var expected: String
        var isBroadcast = false
        var pushType = PushType.alert
        var testDescription: String {
            "\(isBroadcast ? "broadcast " : "")\(pushType) \(name)/\(environment.map { "\($0)" } ?? "")/\(topic)"
        }
    }

    /// - Parameter group: the group of the request topic, whose default app has precedence.
    static func find(_ directory: inout AppDirectory, _ test: Case, group: Int? = nil) -> String {
        let name = Array(test.name.utf8)
        let topic = Array(test.topic.utf8)
        return name.withUnsafeBytes { name in
            topic.withUnsafeBytes { topic in
                let pushType = test.isBroadcast ? nil : test.pushType
                let byDefault = group.flatMap {
                    directory.findDefault(of: $0, environment: test.environment, topic: topic, pushType: pushType)
                }
                let match =
                    byDefault
                    ?? directory.find(name: name, environment: test.environment, topic: topic, pushType: pushType)
                switch match {
                case .app(let app, let defaultTopic):
                    let added = String(decoding: defaultTopic, as: UTF8.self)
                    return "\(app.value)" + (added.isEmpty ? "" : " \(added)")
                case .failure(let reason, _):
                    return "\(reason)"
                }
            }
        }
    }

    @Test(
        arguments: [
            Case(topic: "com.example.shop", expected: "0"),
            Case(topic: "com.example.paper", expected: "2"),
            Case(topic: "com.example.shop.voip", expected: "0"),
            Case(topic: "com.example.news.push-type.liveactivity", expected: "2"),
            Case(topic: "com.example.news.pushkit.fileprovider", expected: "2"),
            Case(topic: "com.example.news.unknown", expected: "badTopic"),
            Case(topic: "com.example", expected: "badTopic"),
            Case(topic: ".voip", expected: "badTopic"),
            Case(environment: .development, topic: "com.example.shop", expected: "1"),
            Case(environment: .production, topic: "com.example.shop.voip", expected: "0"),
            Case(environment: .development, topic: "com.example.news", expected: "badTopic"),
            Case(name: "shop-dev", topic: "com.example.shop", expected: "1"),
            Case(name: "shop-dev", environment: .production, topic: "com.example.shop", expected: "badTopic"),
            Case(name: "news", topic: "com.example.shop", expected: "badTopic"),
            Case(name: "nobody", topic: "com.example.shop", expected: "badTopic"),
            Case(name: "shop", expected: "0 com.example.shop"),
            Case(name: "shop-dev", expected: "1 com.example.shop"),
            Case(name: "news", expected: "missingTopic"),
            Case(name: "nobody", expected: "badTopic"),
            Case(environment: .development, expected: "1 com.example.shop"),
            Case(expected: "missingTopic"),
            Case(topic: "com.example.shop", expected: "0", isBroadcast: true),
            Case(topic: "com.example.shop.voip", expected: "topicDisallowed", isBroadcast: true),
            Case(topic: "com.example.news.push-type.liveactivity", expected: "topicDisallowed", isBroadcast: true),
            Case(topic: "com.example.news.unknown", expected: "badTopic", isBroadcast: true),
            Case(name: "nobody", topic: "com.example.shop", expected: "badTopic", isBroadcast: true),
            Case(environment: .development, topic: "com.example.shop", expected: "1", isBroadcast: true),
            Case(name: "shop", expected: "0 com.example.shop", isBroadcast: true),
            Case(name: "shop", expected: "0 com.example.shop", isBroadcast: true, pushType: .liveactivity),
            Case(name: "shop", expected: "0 com.example.shop.voip", pushType: .voip),
            Case(name: "news", expected: "missingTopic", pushType: .voip),
            Case(topic: "com.example.shop", expected: "0", pushType: .voip),
            Case(topic: "com.example.shop.voip", expected: "0", pushType: .alert),
        ])
    func `A request finds its app by bundle id, suffix, name and environment`(_ test: Case) {
        var directory = AppDirectory(Self.routes)
        #expect(Self.find(&directory, test) == test.expected)
        // The result is the same after it was remembered, and after another lookup.
        #expect(Self.find(&directory, test) == test.expected)
        _ = Self.find(&directory, Case(topic: "com.example.news", expected: ""))
        #expect(Self.find(&directory, test) == test.expected)
        // A lookup of a device topic is not remembered for a broadcast.
        _ = Self.find(&directory, Case(topic: test.topic, expected: ""))
        #expect(Self.find(&directory, test) == test.expected)
    }

    @Test(
        arguments: [
            Case(expected: "1 com.example.shop"),
            Case(topic: "com.example.shop", expected: "1"),
            Case(topic: "com.example.shop.voip", expected: "1"),
            Case(topic: "com.example.shop", expected: "1", isBroadcast: true),
            Case(topic: "com.example.paper", expected: "2"),
            Case(environment: .development, expected: "1 com.example.shop"),
            Case(environment: .production, topic: "com.example.shop", expected: "0"),
            Case(environment: .production, expected: "missingTopic"),
            Case(topic: "com.example.unknown", expected: "badTopic"),
            Case(expected: "1 com.example.shop.push-type.liveactivity", pushType: .liveactivity),
            Case(expected: "1 com.example.shop", isBroadcast: true, pushType: .liveactivity),
            Case(topic: "com.example.shop", expected: "1", pushType: .liveactivity),
        ])
    func `A request topic's default app is used unless the request's topic or environment belongs to another app`(
        _ test: Case
    ) {
        var directory = AppDirectory(Self.routes)
        directory.setDefault("shop-dev", of: 3)
        #expect(Self.find(&directory, test, group: 3) == test.expected)
        // The default is not used for other groups, and can be removed.
        #expect(Self.find(&directory, Case(expected: ""), group: 2) == "missingTopic")
        directory.setDefault(nil, of: 3)
        #expect(Self.find(&directory, Case(expected: ""), group: 3) == "missingTopic")
        // An app with several bundle ids and no topic is reported as such, not as a missing app.
        directory.setDefault("news", of: 3)
        #expect(Self.find(&directory, Case(expected: ""), group: 3) == "missingTopic")
        directory.setDefault("gone", of: 3)
        #expect(Self.find(&directory, Case(expected: ""), group: 3) == "badTopic")
    }

    /// Returns the topic suffix of Apple's "Sending notification requests to APNs", apns-push-type.
    private static func suffix(_ type: PushType) -> String {
        switch type {
        case .alert, .background, .mdm: ""
        case .complication, .voip: ".\(type)"
        case .controls, .liveactivity, .widgets: ".push-type.\(type)"
        case .fileprovider: ".pushkit.fileprovider"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        }
    }

    @Test(arguments: PushType.allCases)
    func `The default topic gets the push type's suffix unless the bundle id has it already, and survives a reload`(
        type: PushType
    ) {
        let suffix = Self.suffix(type)
        let case1 = Case(expected: "0 com.example.shop" + suffix, pushType: type)
        var directory = AppDirectory([Self.routes[0]])
        #expect(Self.find(&directory, case1) == case1.expected)
        // The result is a topic of the app, so a retry record with it finds the app again.
        #expect(Self.find(&directory, Case(topic: "com.example.shop" + suffix, expected: "")) == "0")
        guard
            case .app(_, let lent) = directory.find(name: .nothing, environment: nil, topic: .nothing, pushType: type)
        else { return #expect(Bool(false), "the request must find an app") }
        let ends = AppRoute(name: "shop", environment: .production, bundleIDs: ["com.example.shop" + suffix])
        _ = directory.replace(by: [ends])
        #expect(String(decoding: lent, as: UTF8.self) == "com.example.shop" + suffix)
        #expect(Self.find(&directory, case1) == case1.expected)
        // The topic of a broadcast is the bundle id, even if it ends in a suffix.
        let broadcast = Case(expected: "0 com.example.shop" + suffix, isBroadcast: true, pushType: .liveactivity)
        #expect(Self.find(&directory, broadcast) == broadcast.expected)
    }

    @Test
    func `With one bundle id in two environments and no environment in the request, the first app in the file is used`()
    {
        var directory = AppDirectory(Array(Self.routes.prefix(2)))
        #expect(Self.find(&directory, Case(expected: "")) == "0 com.example.shop")
        #expect(Self.find(&directory, Case(topic: "com.example.shop", expected: "")) == "0")
        // The only configured app is also used for a request without an environment, but not for one of the other
        // environment.
        _ = directory.replace(by: [Self.routes[0]])
        #expect(Self.find(&directory, Case(expected: "")) == "0 com.example.shop")
        #expect(Self.find(&directory, Case(environment: .development, expected: "")) == "badTopic")
    }
}

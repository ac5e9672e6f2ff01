package import PushRecords

/// Finds the app that a request is for, by name, environment and bundle id.
package struct AppDirectory: ~Copyable {
    /// What was found.
    package enum Match {
        /// The app, and the topic when the request names none (else its own holds): the app's bundle id, with the
        /// suffix that the push type wants.
        case app(AppIndex, defaultTopic: UnsafeRawBufferPointer)
        /// Apple's word for it, in our words, and what of the request that is about.
        case failure(ReasonCode, StaticString, Subject)
    }

    package enum Subject {
        case name, topic, nothing
    }

    struct App {
        var name: UnsafeRawBufferPointer
        var environment: PushEnvironment
        var bundleIDs: [UnsafeRawBufferPointer]
        /// By `PushType.rawValue`, what a request for a device gets that names no topic. Empty: there are several
        /// bundle ids.
        var defaultTopics: [UnsafeRawBufferPointer]
    }

    /// What Apple appends to a bundle id for certain push types.
    private static let suffixes = PushType.allCases.compactMap(\.suffix)

    /// By `AppIndex`; `nil`: gone.
    private var apps: [App?] = []
    /// Places in `apps`, in the configuration's order.
    private var order: [Int] = []
    /// The same, by hash of a bundle id or name; several may share one.
    private var byBundleID: [UInt64: [Int]] = [:]
    private var byName: [UInt64: [Int]] = [:]
    /// Names and bundle ids are kept for good: open requests borrow them, whatever becomes of their app.
    private var owned: [String: UnsafeRawBufferPointer] = [:]
    /// By share group: the name of the app of requests that name none; empty: there is no such app.
    private var defaults: [UnsafeRawBufferPointer] = []
    /// The topic asked for last by a request that named neither app nor environment, and its app.
    private var lastTopic = UnsafeRawBufferPointer(start: nil, count: 0)
    private var lastApp = AppIndex(0)
    private var lastSpace: UnsafeMutableRawBufferPointer
    private static let lastLimit = 256

    package init(_ routes: [AppRoute]) {
        lastSpace = .allocate(byteCount: Self.lastLimit, alignment: 1)
        replace(routes, indexes: routes.indices.map { AppIndex($0) })
    }

    deinit {
        for bytes in owned.values { bytes.deallocate() }
        lastSpace.deallocate()
    }

    /// From now on these are all apps there are; `indexes` names each. What was found before stays valid.
    package mutating func replace(_ routes: [AppRoute], indexes: [AppIndex]) {
        precondition(routes.count == indexes.count, "each route has an index")
        apps = Array(repeating: nil, count: max(apps.count, (indexes.map(\.value).max() ?? -1) + 1))
        order.removeAll()
        byBundleID.removeAll()
        byName.removeAll()
        lastTopic = Self.nothing
        for (route, index) in zip(routes, indexes.map(\.value)) {
            let name = own(route.name)
            byName[Self.hash(name), default: []].append(index)
            var bundleIDs: [UnsafeRawBufferPointer] = []
            for bundleID in route.bundleIDs {
                let bytes = own(bundleID)
                bundleIDs.append(bytes)
                byBundleID[Self.hash(bytes), default: []].append(index)
            }
            apps[index] = App(
                name: name, environment: route.environment, bundleIDs: bundleIDs,
                defaultTopics: route.bundleIDs.count == 1 ? PushType.allCases.map { topic(of: $0, route) } : [])
            order.append(index)
        }
    }

    /// The only bundle id of an app with the suffix that a push type wants, unless it ends so already.
    private mutating func topic(of type: PushType, _ route: AppRoute) -> UnsafeRawBufferPointer {
        let bundleID = own(route.bundleIDs[0])
        guard let suffix = type.suffix, !Self.ends(bundleID, with: suffix) else { return bundleID }
        return own(route.bundleIDs[0] + suffix.description)
    }

    /// The app of a request; empty ranges say that nothing was given. The topic of a broadcast is a bundle id alone: it
    /// stands in the path, and APNs says TopicDisallowed to a suffix there.
    package mutating func find(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, topic: UnsafeRawBufferPointer,
        pushType: PushType, isBroadcast: Bool = false
    ) -> Match {
        if topic.isEmpty {
            return findDefault(name: name, environment: environment, pushType: isBroadcast ? nil : pushType)
        }
        if isBroadcast { return findBundle(name: name, environment: environment, topic: topic) }
        if name.isEmpty, environment == nil, Self.isEqual(topic, lastTopic) {
            return .app(lastApp, defaultTopic: Self.nothing)
        }
        guard let index = firstApp(name: name, environment: environment, topic: topic) else {
            guard name.isEmpty || hasApp(named: name, environment: environment) else { return Self.unknownApp(name) }
            return Self.unknownTopic
        }
        if name.isEmpty, environment == nil, topic.count <= Self.lastLimit { remember(topic, index) }
        return .app(AppIndex(index), defaultTopic: Self.nothing)
    }

    /// The app with this name, in whatever environment; `nil`: there is none.
    package func index(named name: UnsafeRawBufferPointer) -> AppIndex? {
        byName[Self.hash(name)]?.first { index in apps[index].map { Self.isEqual($0.name, name) } ?? false }
            .map { AppIndex($0) }
    }

    /// The bytes of a name that an app has or had, there for good; empty: none had.
    package func bytes(ofName name: String) -> UnsafeRawBufferPointer { owned[name] ?? Self.nothing }

    /// From now on this is the app of requests of that share group that name none.
    package mutating func setDefault(_ name: String?, of group: Int) {
        while defaults.count <= group { defaults.append(Self.nothing) }
        defaults[group] = name.map { own($0) } ?? Self.nothing
    }

    /// The app that its request topic gives a request without one; `nil`: none, or the request says by its topic or
    /// environment that it is for another.
    package mutating func findDefault(
        of group: Int, environment: PushEnvironment?, topic: UnsafeRawBufferPointer, pushType: PushType,
        isBroadcast: Bool = false
    ) -> Match? {
        guard group < defaults.count, !defaults[group].isEmpty else { return nil }
        let match = find(
            name: defaults[group], environment: environment, topic: topic, pushType: pushType, isBroadcast: isBroadcast)
        if case .failure = match, !topic.isEmpty || environment != nil { return nil }
        return match
    }

    private func findBundle(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, topic: UnsafeRawBufferPointer
    ) -> Match {
        if let index = firstApp(name: name, environment: environment, bundleID: topic) {
            return .app(AppIndex(index), defaultTopic: Self.nothing)
        }
        guard name.isEmpty || hasApp(named: name, environment: environment) else { return Self.unknownApp(name) }
        if firstApp(name: name, environment: environment, topic: topic) != nil {
            return .failure(
                .topicDisallowed, "a broadcast's topic is the bundle id, without a push type's suffix", .topic)
        }
        return Self.unknownTopic
    }

    /// Without a topic: the only bundle id of the app that is named, or of all apps that fit.
    ///
    /// - Parameter pushType: `nil`: the bundle id alone is the topic.
    private func findDefault(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, pushType: PushType?
    ) -> Match {
        let candidates = name.isEmpty ? order : byName[Self.hash(name)] ?? []
        var found: (index: Int, app: App)?
        for index in candidates {
            guard let app = apps[index], fits(app, name: name, environment: environment) else { continue }
            guard let first = found?.app else {
                found = (index, app)
                continue
            }
            guard first.bundleIDs.count == 1, app.bundleIDs.count == 1,
                Self.isEqual(first.bundleIDs[0], app.bundleIDs[0])
            else {
                return .failure(
                    .missingTopic, "several apps fit and the request names none: give push-app or apns-topic", .nothing)
            }
        }
        guard let found else { return Self.unknownApp(name) }
        guard found.app.bundleIDs.count == 1 else {
            return .failure(
                .missingTopic, "the app has several bundle ids and the request names none: give apns-topic", .nothing)
        }
        let topic = pushType.map { found.app.defaultTopics[Int($0.rawValue)] } ?? found.app.bundleIDs[0]
        return .app(AppIndex(found.index), defaultTopic: topic)
    }

    private func firstApp(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, topic: UnsafeRawBufferPointer
    ) -> Int? {
        if let index = firstApp(name: name, environment: environment, bundleID: topic) { return index }
        for suffix in Self.suffixes where Self.ends(topic, with: suffix) {
            let bundleID = UnsafeRawBufferPointer(rebasing: topic.dropLast(suffix.utf8CodeUnitCount))
            if let index = firstApp(name: name, environment: environment, bundleID: bundleID) { return index }
        }
        return nil
    }

    private func firstApp(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, bundleID: UnsafeRawBufferPointer
    ) -> Int? {
        byBundleID[Self.hash(bundleID)]?.first { index in
            guard let app = apps[index], fits(app, name: name, environment: environment) else { return false }
            return app.bundleIDs.contains { Self.isEqual($0, bundleID) }
        }
    }

    private func fits(_ app: App, name: UnsafeRawBufferPointer, environment: PushEnvironment?) -> Bool {
        (name.isEmpty || Self.isEqual(app.name, name)) && (environment == nil || app.environment == environment)
    }

    private func hasApp(named name: UnsafeRawBufferPointer, environment: PushEnvironment?) -> Bool {
        byName[Self.hash(name)]?.contains { index in
            apps[index].map { fits($0, name: name, environment: environment) } ?? false
        } ?? false
    }

    private mutating func remember(_ topic: UnsafeRawBufferPointer, _ index: Int) {
        lastSpace.copyMemory(from: topic)
        lastTopic = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(lastSpace)[..<topic.count])
        lastApp = AppIndex(index)
    }

    private mutating func own(_ text: String) -> UnsafeRawBufferPointer {
        if let bytes = owned[text] { return bytes }
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
        bytes.copyBytes(from: text.utf8)
        owned[text] = UnsafeRawBufferPointer(bytes)
        return UnsafeRawBufferPointer(bytes)
    }

    private static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
    private static var unknownTopic: Match {
        .failure(
            .badTopic,
            "the topic is not a bundle id of an app of this worker's configuration (all workers of a group need the same apps)",
            .topic)
    }
    private static func unknownApp(_ name: UnsafeRawBufferPointer) -> Match {
        name.isEmpty
            ? .failure(
                .badTopic,
                "no app of this worker's configuration is of that environment (all workers of a group need the same apps)",
                .nothing)
            : .failure(
                .badTopic,
                "no app of this worker's configuration has that name and environment (all workers of a group need the same apps)",
                .name)
    }

    private static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 { BytesHash.hash(bytes, seed: 0) }

    private static func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        BytesHash.isEqual(left, right)
    }

    private static func ends(_ bytes: UnsafeRawBufferPointer, with suffix: StaticString) -> Bool {
        guard bytes.count > suffix.utf8CodeUnitCount else { return false }
        return isEqual(UnsafeRawBufferPointer(rebasing: bytes.suffix(suffix.utf8CodeUnitCount)), suffix.lentBytes)
    }
}

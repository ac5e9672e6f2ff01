package import PushRecords

/// Finds the app of a request by name, environment and bundle id. Each app keeps its `AppIndex` as long as the machine
/// exists.
package struct AppDirectory: ~Copyable {
    /// The result of a search for the app of a request.
    package enum Match {
        /// The app. `defaultTopic` is the app's bundle id with the push type's suffix if the request names no topic,
        /// and empty if the request names one.
        case app(AppIndex, defaultTopic: UnsafeRawBufferPointer)
        /// The reason to reject the request, and an explanation that may quote a part of the request. The caller of the
        /// search owns the quoted bytes.
        case failure(ReasonCode, Detail)
    }

    private struct App {
        var route: AppRoute
        /// The index of the app that `AppRoute.otherEnvironment` names, or `nil` if no such app is configured.
        var other: Int?
        var name = UnsafeRawBufferPointer.nothing
        var bundleIDs: [UnsafeRawBufferPointer] = []
        /// The topics, by `PushType.rawValue`, for device requests that name no topic. Empty if the app has several
        /// bundle ids.
        var defaultTopics: [UnsafeRawBufferPointer] = []
    }

    /// The suffixes that Apple requires after the bundle id for certain push types.
    private static let suffixes = PushType.allCases.compactMap(\.suffix)

    /// All apps by `AppIndex`, including removed ones.
    private var apps: [App] = []
    /// The configured apps, in the order of the configuration.
    private var order: [Int] = []
    /// The configured apps by the hash of a bundle id or a name. Several apps may share a bundle id.
    private var byBundleID: [UInt64: [Int]] = [:]
    private var byName: [UInt64: [Int]] = [:]
    /// Copies of names and bundle ids. They are never freed, because open requests borrow them even after a reload.
    private var owned: [String: UnsafeRawBufferPointer] = [:]
    /// The name of each topic group's default app, for requests that name no app. Empty if the group has no default
    /// app.
    private var defaults: [UnsafeRawBufferPointer] = []
    /// The topic of the last request that named neither app nor environment, and the app that was found for that topic.
    private var lastTopic = UnsafeRawBufferPointer.nothing
    private var lastApp = AppIndex(0)
    private var lastSpace: UnsafeMutableRawBufferPointer
    private static let lastLimit = 256

    package init(_ routes: [AppRoute]) {
        lastSpace = .allocate(byteCount: Self.lastLimit, alignment: 1)
        _ = replace(by: routes)
    }

    deinit {
        for bytes in owned.values { bytes.deallocate() }
        lastSpace.deallocate()
    }

    // MARK: Apps

    var indices: Range<Int> { apps.indices }
    var count: Int { apps.count }
    /// Whether several apps are configured. Then no app may block another.
    var areMany: Bool { order.count > 1 }
    func route(_ app: Int) -> AppRoute { apps[app].route }
    /// Returns the bytes of the app's name, which are never freed.
    func name(_ app: Int) -> UnsafeRawBufferPointer { apps[app].name }
    /// Returns the app to which a notification of this app is forwarded once after BadDeviceToken.
    func other(_ app: Int) -> Int? { apps[app].other }

    /// Returns the first app with the name and environment of this route, including removed apps.
    func namesake(of route: AppRoute) -> Int? { apps.firstIndex { Self.isSame($0.route, route) } }

    private static func isSame(_ left: AppRoute, _ right: AppRoute) -> Bool {
        left.name == right.name && left.environment == right.environment
    }

    /// Replaces all apps. An app with the name and environment of an existing one keeps its index. New apps get the
    /// next indexes. Results of earlier searches stay valid.
    package mutating func replace(by routes: [AppRoute]) -> AppMapping {
        var mapping = AppMapping(indexes: [], added: [], removed: [])
        let before = order
        order.removeAll()
        byBundleID.removeAll()
        byName.removeAll()
        lastTopic = .nothing
        for route in routes {
            let known = before.sorted().first { !order.contains($0) && Self.isSame(apps[$0].route, route) }
            let index = known ?? apps.count
            if known == nil {
                apps.append(App(route: route))
                mapping.added.append(AppIndex(index))
            }
            mapping.indexes.append(AppIndex(index))
            order.append(index)
            apps[index].route = route
            apps[index].name = own(route.name)
            apps[index].bundleIDs = route.bundleIDs.map { own($0) }
            apps[index].defaultTopics =
                route.bundleIDs.count == 1 ? PushType.allCases.map { topic(of: $0, route) } : []
            byName[apps[index].name.hash(seed: 0), default: []].append(index)
            for bundleID in apps[index].bundleIDs { byBundleID[bundleID.hash(seed: 0), default: []].append(index) }
        }
        mapping.removed = before.sorted().filter { !order.contains($0) }.map { AppIndex($0) }
        for app in apps.indices {
            // Removed apps need `other` too, because APNs may still answer their requests in flight with
            // BadDeviceToken.
            apps[app].other = apps[app].route.otherEnvironment.flatMap { name in
                order.sorted().first { apps[$0].route.name == name }
            }
        }
        return mapping
    }

    /// Returns the app's only bundle id, with the push type's suffix if the bundle id does not end with it yet.
    private mutating func topic(of type: PushType, _ route: AppRoute) -> UnsafeRawBufferPointer {
        let bundleID = own(route.bundleIDs[0])
        guard let suffix = type.suffix, !Self.ends(bundleID, with: suffix) else { return bundleID }
        return own(route.bundleIDs[0] + suffix.description)
    }

    /// Returns the app of a request. Pass an empty name or topic if the request does not have one.
    ///
    /// - Parameter pushType: `nil` for a broadcast. The topic of a broadcast is in the request's path and must be a
    ///   bundle id without a suffix. APNs rejects any other topic with TopicDisallowed.
    package mutating func find(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, topic: UnsafeRawBufferPointer, pushType: PushType?
    ) -> Match {
        if topic.isEmpty { return findDefault(name: name, environment: environment, pushType: pushType) }
        let isSimple = pushType != nil && name.isEmpty && environment == nil
        if isSimple, topic.isEqual(to: lastTopic) { return .app(lastApp, defaultTopic: .nothing) }
        let found = firstApp(name: name, environment: environment, topic: topic, isBroadcast: pushType == nil)
        if let found {
            if isSimple, topic.count <= Self.lastLimit {
                lastSpace.copyMemory(from: topic)
                lastTopic = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(lastSpace)[..<topic.count])
                lastApp = AppIndex(found)
            }
            return .app(AppIndex(found), defaultTopic: .nothing)
        }
        guard name.isEmpty || app(named: name, environment: environment) != nil else { return Self.unknownApp(name) }
        guard pushType == nil, firstApp(name: name, environment: environment, topic: topic) != nil else {
            return Self.unknownTopic(topic)
        }
        return .failure(
            .topicDisallowed, Detail("a broadcast's topic must be the bundle id without a push type's suffix", topic))
    }

    /// Sets the default app of a topic group, for requests that name no app.
    package mutating func setDefault(_ name: String?, of group: Int) {
        while defaults.count <= group { defaults.append(.nothing) }
        defaults[group] = name.map { own($0) } ?? .nothing
    }

    /// Returns the default app of a topic group for a request that names no app. Returns `nil` if the group has no
    /// default app, or if that app does not match the request's topic or environment.
    package mutating func findDefault(
        of group: Int, environment: PushEnvironment?, topic: UnsafeRawBufferPointer, pushType: PushType?
    ) -> Match? {
        guard group < defaults.count, !defaults[group].isEmpty else { return nil }
        let match = find(name: defaults[group], environment: environment, topic: topic, pushType: pushType)
        if case .failure = match, !topic.isEmpty || environment != nil { return nil }
        return match
    }

    /// Returns the app and the default topic for a request without a topic. Fails unless all apps that match have the
    /// same single bundle id.
    private func findDefault(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, pushType: PushType?
    ) -> Match {
        let candidates = name.isEmpty ? order : byName[name.hash(seed: 0)] ?? []
        var found: Int?
        for index in candidates where fits(index, name: name, environment: environment) {
            guard let first = found else {
                found = index
                continue
            }
            guard apps[first].bundleIDs.count == 1, apps[index].bundleIDs.count == 1,
                apps[first].bundleIDs[0].isEqual(to: apps[index].bundleIDs[0])
            else {
                return .failure(
                    .missingTopic, Detail("several apps match and the request names none: set push-app or apns-topic"))
            }
        }
        guard let found else { return Self.unknownApp(name) }
        guard apps[found].bundleIDs.count == 1 else {
            return .failure(
                .missingTopic, Detail("the app has several bundle ids and the request names none: set apns-topic"))
        }
        let topic = pushType.map { apps[found].defaultTopics[Int($0.rawValue)] } ?? apps[found].bundleIDs[0]
        return .app(AppIndex(found), defaultTopic: topic)
    }

    private func firstApp(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, topic: UnsafeRawBufferPointer,
        isBroadcast: Bool = false
    ) -> Int? {
        let index = firstApp(name: name, environment: environment, bundleID: topic)
        if index != nil || isBroadcast { return index }
        for suffix in Self.suffixes where Self.ends(topic, with: suffix) {
            let bundleID = UnsafeRawBufferPointer(rebasing: topic.dropLast(suffix.utf8CodeUnitCount))
            if let index = firstApp(name: name, environment: environment, bundleID: bundleID) { return index }
        }
        return nil
    }

    private func firstApp(
        name: UnsafeRawBufferPointer, environment: PushEnvironment?, bundleID: UnsafeRawBufferPointer
    ) -> Int? {
        byBundleID[bundleID.hash(seed: 0)]?.first { index in
            fits(index, name: name, environment: environment)
                && apps[index].bundleIDs.contains { $0.isEqual(to: bundleID) }
        }
    }

    private func fits(_ app: Int, name: UnsafeRawBufferPointer, environment: PushEnvironment?) -> Bool {
        (name.isEmpty || apps[app].name.isEqual(to: name))
            && (environment == nil || apps[app].route.environment == environment)
    }

    private func app(named name: UnsafeRawBufferPointer, environment: PushEnvironment?) -> Int? {
        byName[name.hash(seed: 0)]?.first { fits($0, name: name, environment: environment) }
    }

    private mutating func own(_ text: String) -> UnsafeRawBufferPointer {
        if let bytes = owned[text] { return bytes }
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 1)
        bytes.copyBytes(from: text.utf8)
        owned[text] = UnsafeRawBufferPointer(bytes)
        return UnsafeRawBufferPointer(bytes)
    }

    private static func unknownTopic(_ topic: UnsafeRawBufferPointer) -> Match {
        let text: StaticString =
            "the topic is not a bundle id of an app of this worker's configuration (all workers of a group need the same apps)"
        return .failure(.badTopic, Detail(text, topic))
    }

    private static func unknownApp(_ name: UnsafeRawBufferPointer) -> Match {
        let text: StaticString =
            name.isEmpty
            ? "no app of this worker's configuration has that environment (all workers of a group need the same apps)"
            : "no app of this worker's configuration has that name and environment (all workers of a group need the same apps)"
        return .failure(.badTopic, Detail(text, name))
    }

    private static func ends(_ bytes: UnsafeRawBufferPointer, with suffix: StaticString) -> Bool {
        guard bytes.count > suffix.utf8CodeUnitCount else { return false }
        return UnsafeRawBufferPointer(rebasing: bytes.suffix(suffix.utf8CodeUnitCount)).isEqual(to: suffix.lentBytes)
    }
}

extension AppDirectory {
    /// Returns the app that was tried first, if a retry record names it, or else `foundApp`. Returns
    /// `Record.Body.unknownApp` if the named app is not configured here.
    func firstApp(_ request: ParsedRequest, foundApp: AppIndex) -> Int32 {
        guard let tried = request.retry?.triedApp, !tried.isEmpty else { return Int32(foundApp.value) }
        return app(named: tried, environment: nil).map { Int32($0) } ?? Record.Body.unknownApp
    }

    /// Returns the app of a request. Without an app name, tries the default app of the request's topic group first.
    mutating func findApp(_ request: ParsedRequest, of group: Int) -> AppDirectory.Match {
        let (environment, topic) = (request.environment, request.headers.topic)
        let pushType = request.target == .channel ? nil : request.headers.pushType
        if request.app.isEmpty,
            let match = findDefault(of: group, environment: environment, topic: topic, pushType: pushType)
        {
            return match
        }
        let match = find(name: request.app, environment: environment, topic: topic, pushType: pushType)
        // The name in a retry record is from the configuration of the worker that wrote the record. In this worker's
        // configuration the app may have another name, permanently or during a rolling restart, so search by topic.
        guard case .failure = match, request.retry != nil, !request.app.isEmpty, !topic.isEmpty else { return match }
        let byTopic = find(name: .nothing, environment: environment, topic: topic, pushType: pushType)
        // If no app has the topic in the request's environment, return the app that forwarded the notification.
        guard case .failure = byTopic, let tried = request.retry?.triedApp, !tried.isEmpty else { return byTopic }
        return find(name: tried, environment: nil, topic: topic, pushType: pushType)
    }
}

extension ParsedRequest {
    /// Marks the request as invalid for this reason, unless it already is invalid.
    mutating func refuse(_ reason: ReasonCode, _ detail: Detail) {
        guard !isInvalid else { return }
        isInvalid = true
        failureReason = reason
        self.detail = detail
    }
}

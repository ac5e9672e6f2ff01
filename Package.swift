// swift-tools-version: 6.2
import PackageDescription

// All dependencies are C libraries of the Linux distribution, which `Docker/setup` installs, so builds need no network.

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .treatAllWarnings(as: .error),
]

/// Settings that require the `unsafe` keyword at each unsafe use, for modules that wrap a C library or call the kernel.
/// `PushRecords`, `Delivery`, `APNs`, `APNsSimulator` and `Worker` use lent bytes in 1,700 expressions and do without.
let wrapper = strict + [.strictMemorySafety()]

/// Settings of tests. Test code is not optimized, since compiling it would take longer than running it saves.
let tests = strict + [.unsafeFlags(["-Onone"])]

/// Returns a module and its tests, in `Sources/NAME` and `Tests/NAMETests`.
func module(
    _ name: String, _ dependencies: [Target.Dependency] = [], resources: [Resource]? = nil,
    settings: [SwiftSetting] = strict, tests testDependencies: [Target.Dependency] = []
) -> [Target] {
    [
        .target(name: name, dependencies: dependencies, resources: resources, swiftSettings: settings),
        .testTarget(
            name: "\(name)Tests", dependencies: [.byName(name: name)] + dependencies + testDependencies,
            swiftSettings: tests),
    ]
}

/// The JSON Schemas of the records. They are embedded in the module, since a resource bundle would need Foundation.
let schemas: [Resource] = [
    "asyncapi", "dead-letter-headers", "request-envelope", "request-envelope-headers", "request-headers",
    "request-payload", "result", "result-headers", "retry-headers", "unregistered",
].map { .embedInCode("Schemas/\($0).json") }

func library(_ name: String, pkgConfig: String, apt: String) -> Target {
    .systemLibrary(
        name: name, path: "Sources/CLibraries/\(name)", pkgConfig: pkgConfig, providers: [.apt([apt])])
}

let libraries: [Target] = [
    library("CRdkafka", pkgConfig: "rdkafka", apt: "librdkafka-dev"),
    library("CNghttp2", pkgConfig: "libnghttp2", apt: "libnghttp2-dev"),
    library("COpenSSL", pkgConfig: "openssl", apt: "libssl-dev"),
    library("CYAML", pkgConfig: "yaml-0.1", apt: "libyaml-dev"),
    library("CMicrohttpd", pkgConfig: "libmicrohttpd", apt: "libmicrohttpd-dev"),
    .target(name: "CLinux", path: "Sources/CLibraries/CLinux"),
]

/// The target that `Tests/Fuzz/fuzz` builds. Other builds omit it because it links with libFuzzer.
let fuzzer: [Target] =
    Context.environment["APNS_WORKER_FUZZ"] == nil
    ? []
    : [
        .executableTarget(
            name: "apns-fuzz", dependencies: ["Fuzz"], path: "Tests/Fuzz/Driver", swiftSettings: strict,
            linkerSettings: [.unsafeFlags(["-use-ld=lld"])])
    ]

let package = Package(
    name: "apns-worker",
    // These platforms are for `PushRecords` and its dependencies, which producers use. All other targets need Linux.
    platforms: [.macOS(.v13), .iOS(.v16)],
    products: [
        .executable(name: "apns-worker", targets: ["apns-worker"]),
        .executable(name: "apns-bench", targets: ["apns-bench"]),
        .library(name: "PushRecords", targets: ["PushRecords"]),
    ],
    targets: libraries
        + module("Bytes", settings: wrapper)
        + module("JSON", settings: wrapper, tests: ["Bytes"])
        + module("Kafka", ["CRdkafka", "CLinux", "JSON"], settings: wrapper, tests: ["TestSupport", "Bytes"])
        + module("TLS", ["COpenSSL", "Bytes"], settings: wrapper, tests: ["TestSupport"])
        + module("HTTP2", ["CNghttp2"], settings: wrapper, tests: ["Bytes", "TestSupport"])
        + module("YAML", ["CYAML"], settings: wrapper)
        + module(
            "HTTPServer", ["CMicrohttpd", "Network", "EventLoop"], settings: wrapper, tests: ["TestSupport"])
        + module("EventLoop", ["CLinux", "Bytes"], settings: wrapper, tests: ["TestSupport"])
        + module("Network", ["EventLoop", "TLS", "CLinux", "Bytes"], settings: wrapper, tests: ["TestSupport"])
        + module("PushRecords", ["JSON", "Bytes"], resources: schemas, tests: ["TestSupport"])
        + [.target(name: "PushTransport", dependencies: ["PushRecords", "CLinux"], swiftSettings: strict)]
        + module("Delivery", ["PushTransport", "PushRecords", "CLinux", "Bytes"], tests: ["DeliveryInvariants"])
        + module(
            "APNs",
            ["PushTransport", "PushRecords", "HTTP2", "TLS", "Network", "EventLoop", "JSON", "CLinux", "Bytes"],
            tests: ["Delivery", "TestSeeds", "TestSupport"])
        + module(
            "APNsSimulator", ["PushRecords", "HTTP2", "TLS", "Network", "EventLoop", "JSON", "HTTPServer", "Bytes"],
            tests: ["TestSupport"])
        + module("Observability", ["CLinux"], settings: wrapper, tests: ["TestSupport"])
        + module("Replay", ["Kafka", "PushRecords", "EventLoop", "Bytes"], tests: ["TestSupport"])
        + module(
            "Configuration", ["YAML", "PushRecords", "Observability", "CLinux"], settings: wrapper,
            tests: ["TestSupport"])
        + module(
            "Worker",
            [
                "Kafka", "Delivery", "APNs", "PushRecords", "Configuration", "Observability", "EventLoop", "Network",
                "TLS", "HTTP2", "HTTPServer", "JSON", "CLinux",
            ], tests: ["TestSupport", "APNsSimulator"]) + [
            .executableTarget(
                name: "apns-worker",
                dependencies: [
                    "Worker", "Replay", "APNs", "APNsSimulator", "Configuration", "Observability", "Kafka", "TLS",
                    "EventLoop", "Network", "PushRecords", "JSON", "CLinux", "Bytes",
                ],
                swiftSettings: strict),
            .executableTarget(
                name: "apns-bench",
                dependencies: [
                    "Kafka", "TLS", "HTTP2", "Network", "EventLoop", "CLinux", "CFloors", "CNghttp2", "COpenSSL",
                    "APNs", "Delivery", "PushRecords",
                ],
                exclude: ["driver", "Floors"], swiftSettings: strict),
            .target(
                name: "CFloors", dependencies: ["CRdkafka", "CNghttp2", "COpenSSL"],
                path: "Sources/apns-bench/Floors"),
            .target(
                name: "TestSupport", dependencies: ["Kafka", "CLinux", "CRdkafka"], path: "Tests/TestSupport",
                swiftSettings: tests),
            // Release builds include this target without `-enable-testing`, and do not link it with anything.
            .target(
                name: "DeliveryInvariants", dependencies: ["Delivery", "PushRecords"],
                path: "Tests/DeliveryInvariants",
                swiftSettings: strict + [
                    .unsafeFlags(["-Xfrontend", "-disable-testable-attr-requires-testable-module"])
                ]),
            .target(name: "TestSeeds", path: "Tests/TestSeeds", swiftSettings: tests),
            .target(
                name: "Fuzz",
                dependencies: [
                    "JSON", "PushRecords", "Delivery", "YAML", "Configuration", "HTTP2", "APNs", "Network", "Bytes",
                ],
                path: "Tests/Fuzz/Targets", swiftSettings: strict),
            .testTarget(name: "FuzzTests", dependencies: ["Fuzz", "Bytes"], swiftSettings: tests),
            .testTarget(
                name: "BenchTests", dependencies: ["apns-bench", "TestSupport"], exclude: ["driver_tests.py"],
                swiftSettings: tests),
            // Optimized because it runs thousands of simulations.
            .testTarget(
                name: "SimulationTests",
                dependencies: ["Delivery", "DeliveryInvariants", "PushRecords", "Bytes", "TestSeeds"],
                swiftSettings: strict),
            .testTarget(
                name: "EndToEndTests", dependencies: ["TestSupport", "Kafka", "Delivery"],
                exclude: ["Books"],
                swiftSettings: tests),
            .testTarget(
                name: "GuardTests", dependencies: ["apns-bench", "TestSupport"], exclude: ["figures.json"],
                swiftSettings: tests),
        ] + fuzzer
)

// `APNS_WORKER_ONLY=DeliveryTests,JSONTests swift test` builds and links only these targets and their dependencies.
if let names = Context.environment["APNS_WORKER_ONLY"] {
    var wanted = Set(names.split(separator: ",").map(String.init))
    var known = -1
    while known < wanted.count {
        known = wanted.count
        for target in package.targets where wanted.contains(target.name) {
            for dependency in target.dependencies {
                switch dependency {
                case .byNameItem(let name, _), .targetItem(let name, _): wanted.insert(name)
                default: break
                }
            }
        }
    }
    package.targets.removeAll { !wanted.contains($0.name) }
    package.products = []
}

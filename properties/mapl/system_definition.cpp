// Registers MAPL with the gate.
#include <cmath>

#include <truestep/distributed/mapl/products.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/verify/mapl/traces.hpp>

#include "case.hpp"
#include "devices.hpp"
#include "family.hpp"
#include "implementation.hpp"
#include "planted/diagnosis.hpp"
#include "planted/planted.hpp"
#include "program.hpp"

namespace truestep::properties::mapl {

namespace {

/// Larger cases, tried in each row beside the drawn ones.
std::vector<gate::Line> standing_of_mapl(const gate::Implementation& /*of*/,
                                         const gate::Overrides& overrides) {
    if (!overrides.empty())
        return {};
    std::vector<gate::Line> all{
        "rank=16,width=48,workers=4,tokens=40,vocabulary=257,micro=6,steps=3,anchors=two,"
        "schedule=1f1b,data=normal",
        "rank=40,width=128,workers=2,tokens=100,vocabulary=50,micro=2,steps=2,anchors=shared,data=normal",
        "rank=24,width=40,workers=3,tokens=70,vocabulary=50,micro=5,steps=2,codewords=96,groups=4,rounds=2,"
        "subsets=4,data=normal",
        // Equal codewords, some of them a lane apart.
        "rank=4,width=7,workers=2,tokens=33,vocabulary=257,codewords=65,groups=2,rounds=2,data=dyadic"};
    // The first moment becomes subnormal, then 0.
    all.emplace_back("rank=2,width=3,workers=2,tokens=3,vocabulary=3,steps=300,data=once");
    // At the edges of what hosts and devices take at once: tokens and codewords, what a book quantizes, and
    // the entries of A, as a matrix that is as nearly square as it can be.
    using problem::Dimension;
    gate::Covering covering;
    const std::vector<Index> words = gate::edge_sizes(Dimension::words);
    const auto add = [&](Dimension dimension, Index size, bool quantizes,
                         const std::function<void(Case&)>& change) {
        const Index codewords = quantizes ? words[all.size() % words.size()] : 0;
        covering.begin({{dimension, size}, {Dimension::words, codewords}});
        Case run;
        run.rank = covering.choose<Index>("rank", {4, 6});
        run.width = run.rank + 3;
        run.tokens = 33;
        run.micro = covering.choose<Index>("micro", {1, 2});
        run.steps = 2;
        run.vocabulary = 257;
        run.anchors =
            covering.choose("anchors", {Anchors::none, Anchors::fixed, Anchors::shared, Anchors::two});
        run.order = covering.choose("order", {Order::project_first, Order::momentum_first});
        run.data = covering.choose("data", {DataClass::normal, DataClass::dyadic, DataClass::ties,
                                            DataClass::sparse, DataClass::zeros, DataClass::subnormal});
        run.payload = covering.choose("payload", {Payload::fp32, Payload::bf16});
        run.codewords = codewords;
        if (quantizes) {
            run.groups = covering.choose<Index>("groups", {1, 2});
            run.rounds = covering.choose<Index>("rounds", {1, 2, 3});
            run.subsets = codewords % 2 == 0 ? covering.choose<Index>("subsets", {2, 1}) : 1;
        }
        run.seed = static_cast<Index>(all.size());
        change(run);
        all.push_back(spec().text(run));
    };
    for (const Index tokens : gate::edge_sizes(Dimension::tokens))
        for (const bool quantizes : {true, false})
            add(Dimension::tokens, tokens, quantizes, [&](Case& run) { run.tokens = tokens; });
    for (const Index part : gate::edge_sizes(Dimension::part))
        add(Dimension::part, part, true, [&](Case& run) {
            run.rank = part * run.groups;
            run.width = run.rank + 3;
        });
    for (const Index entries : gate::edge_sizes(Dimension::model, 10'000))
        add(Dimension::model, entries, false, [&](Case& run) {
            run.rank = static_cast<Index>(std::sqrt(static_cast<double>(entries)));
            while (entries % run.rank != 0)
                --run.rank;
            run.width = entries / run.rank;
        });
    return all;
}

} // namespace

gate::System mapl_system();

gate::System mapl_system() {
    // Set before any process is made for cases. Set in each of them, it would start OpenBLAS's threads
    // there, which look for work for a while.
    distributed::mapl::one_thread_unless_asked();
    gate::System system;
    system.name = "mapl";
    system.says = "MAPL: stages of a pipeline send activations and gradients in a learned subspace.";
    system.fewest_workers = 2; // the two ends of a boundary
    mapl::spec().describe(system);
    system.extents = [](const gate::Line& line) {
        const Case run = spec().parse(line);
        return gate::Extents{{problem::Dimension::model, run.rank * run.width},
                             {problem::Dimension::tokens, run.tokens},
                             {problem::Dimension::words, run.codewords},
                             {problem::Dimension::part, run.codewords > 0 ? run.rank / run.groups : 0}};
    };
    system.set_at_edges = {"anchors", "order", "payload", "groups", "rounds", "subsets", "micro"};
    system.properties = mapl::properties();
    for (gate::Property& property : system.properties)
        if (property.name == "reference")
            property.also = standing_of_mapl;
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all{std::make_shared<mapl::GroupImplementation>(
            "host", mapl::host_ends(), group, gate::Placement{.checks_messages = true})};
        for (const auto& implementation : mapl::on_devices(group))
            all.push_back(implementation);
        all.push_back(mapl::planted(0, group));
        return all;
    };
    system.program = mapl::program_candidate;
    system.known_bugs = mapl::known_bugs();
    system.planted = mapl::planted;
    system.clean = {"host"};
    system.traces = verify::mapl::traces();
    system.what_fits = mapl::what_fits;
    return system;
}

} // namespace truestep::properties::mapl

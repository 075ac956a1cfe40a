// Gathers what one MAPL boundary sent and held at each step, as a recording for a trace.
#include "boundary_recording.hpp"

#include <truestep/problem/error.hpp>

#include "quantized_message.hpp"
#include "trial.hpp"

namespace truestep::properties::mapl {

namespace {

/// The P that a side uses: given, or made from the seed.
Floats rows_in_use(const Scenario& scenario, Index boundary, Side side) {
    Floats rows = scenario.state(boundary, side).rows;
    return rows.empty() ? anchor_rows(scenario.settings(boundary, side), side) : rows;
}

/// Indices as a trace's numbers.
Floats numbers_of(const Indices& indices) {
    Floats numbers;
    for (Index place = 0; place < indices.size(); ++place)
        numbers.push_back(static_cast<float>(indices.data()[place]));
    return numbers;
}

} // namespace

verify::mapl::Recording recording_of(const Scenario& scenario, const std::vector<RankRecording>& seen,
                                     Index boundary) {
    const Case& run = scenario.run;
    const RankRecording& sender = seen[static_cast<std::size_t>(boundary)];
    const RankRecording& receiver = seen[static_cast<std::size_t>(boundary) + 1];
    verify::mapl::Recording made{{scenario.settings(boundary, Side::sender), run.steps, run.micro,
                                  run.tokens, run.schedule == Schedule::one_forward_one},
                                 {},
                                 {}};
    made.vectors["initial/A"] = sender.at(key(0, "s.A"));
    made.vectors["initial/m"] = sender.at(key(0, "s.m"));
    if (run.codewords > 0) {
        made.vectors["initial/C"] = sender.at(key(0, "s.C"));
        made.vectors["initial/L"] = sender.at(key(0, "s.L"));
    }
    if (run.anchors != Anchors::none) {
        made.vectors["P_sender"] = rows_in_use(scenario, boundary, Side::sender);
        made.vectors["P_receiver"] = rows_in_use(scenario, boundary, Side::receiver);
    }
    for (Index step = 0; step < run.steps; ++step) {
        const auto keep = [&](const std::string& name, const Floats& values) {
            made.vectors[verify::mapl::of_step(step + 1, name)] = values;
        };
        made.numbers["rate"].push_back(scenario.rate_of(step));
        keep("E_sender", sender.at(key(step, "s.E")));
        keep("E_receiver", receiver.at(key(step, "r.E")));
        for (Index micro = 0; micro < run.micro; ++micro) {
            for (const Id id : scenario.ids(step, micro))
                made.numbers["ids"].push_back(static_cast<double>(id));
            keep(verify::mapl::of_micro("X", micro + 1), sender.at(key(step, micro, "X")));
            keep(verify::mapl::of_micro("dX", micro + 1), sender.at(key(step, micro, "dX")));
            keep(verify::mapl::of_micro("G", micro + 1), receiver.at(key(step, micro, "G")));
            keep(verify::mapl::of_micro("Xhat", micro + 1), receiver.at(key(step, micro, "Xhat")));
            if (run.codewords > 0) {
                const QuantizedMessage wire = coded(scenario, seen, boundary, step, micro);
                if (!wire.cannot_be.empty())
                    throw Error(boundary_text(boundary, key(step, micro, wire.cannot_be)));
                keep(verify::mapl::of_micro("indices", micro + 1), numbers_of(wire.indices));
                keep(verify::mapl::of_micro("codewords", micro + 1), wire.codewords);
            } else {
                keep(verify::mapl::of_micro("Z", micro + 1),
                     sent_values(scenario, seen, boundary, step, micro, true).values);
            }
            keep(verify::mapl::of_micro("dZ", micro + 1),
                 sent_values(scenario, seen, boundary, step, micro, false).values);
        }
        if (run.codewords > 0) {
            keep("L", sender.at(key(step + 1, "s.L")));
            keep("C", sender.at(key(step + 1, "s.C")));
            keep("C_receiver", receiver.at(key(step + 1, "r.C")));
        }
        keep("gradient", sender.at(key(step, "s.gA")));
        keep("dE_sender", sender.at(key(step, "s.dE")));
        keep("dE_receiver", receiver.at(key(step, "r.dE")));
        keep("m", sender.at(key(step + 1, "s.m")));
        keep("A", sender.at(key(step + 1, "s.A")));
        keep("A_receiver", receiver.at(key(step + 1, "r.A")));
    }
    return made;
}

} // namespace truestep::properties::mapl

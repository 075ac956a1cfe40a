// Makes the implementation of SCAPE that has a given known bug, on the host or on a device.
#include <truestep/properties/scape/planted/implementation.hpp>

#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/properties/scape/planted/plain.hpp>
#include <truestep/properties/scape/sharded.hpp>

#include "devices.hpp"

namespace truestep::properties::scape::planted {

std::shared_ptr<const properties::scape::Implementation>
implementation(int number, const std::shared_ptr<const gate::Group>& group, const Start& start) {
    const auto count = static_cast<int>(bugs().size());
    if (number < 0 || number > count)
        throw Error("known bug " + std::to_string(number) + " does not exist; they are numbered 1 to " +
                    std::to_string(count));
    if (const gpu::DeviceMistakes* const bugs = on_devices_with(number)) {
        properties::scape::ImplementationSpec ranked =
            properties::scape::with_device_bug(*group, bugs->planted_as(number), bugs->on_device(number));
        ranked.name = "planted-" + std::to_string(number);
        ranked.rounds_payloads = bugs->first == first_of_device_payloads;
        if (group->name() != "in_process")
            ranked.unavailable = "its ranks are threads; leave --communicator mpi out";
        return properties::scape::on_ranks(std::move(ranked), group);
    }
    const auto bug = static_cast<Bug>(number);
    return properties::scape::on_ranks(
        {.name = number == 0 ? "plain" : "planted-" + std::to_string(number),
         .make =
             [bug, start](const properties::scape::Setup& setup, distributed::Communicator& communicator) {
                 return make_plain(setup, communicator, bug, start);
             },
         .takes_parts = true,
         .rounds_payloads = true,
         .adds_groups = true,
         .compares_starts = true,
         .takes_states = true},
        group);
}

} // namespace truestep::properties::scape::planted

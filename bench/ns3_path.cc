// The main study's symmetric path in ns-3 with one bulk flow, to compare the cost.
//
//     sender - r1 == r2 - receiver        10 Gbit/s links, == the bottleneck; the delay is on r2 - receiver
//
// Arguments: ALGORITHM (TcpCubic, TcpBbr) RATE_MBIT RTT_MS BUFFER_PACKETS LOSS_PERCENT DURATION_S.
// Prints CPU seconds, packets sent by all interfaces, and goodput in Mbit/s.

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <sys/resource.h>

#include <cstdio>
#include <string>

using namespace ns3;

static uint64_t g_sent = 0;

static void Sent(Ptr<const Packet>) { g_sent++; }

static double ProcessorSeconds()
{
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char* argv[])
{
    if (argc != 7)
    {
        std::fprintf(stderr, "six arguments must be given, found %d\n", argc - 1);
        return 2;
    }
    const std::string algorithm = argv[1], rate = std::string(argv[2]) + "Mbps";
    const double rtt_ms = std::stod(argv[3]), loss = std::stod(argv[5]) / 100;
    const std::string buffer = std::string(argv[4]) + "p";
    const double duration_s = std::stod(argv[6]);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + algorithm));
    // Payload of an Ethernet frame without the IP and TCP headers and TCP timestamps.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    // Large enough not to limit: eight times the bandwidth-delay product of 10 Gbit/s and 20 ms.
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(200000000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(200000000));

    NodeContainer nodes;
    nodes.Create(4);
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
    Ipv4InterfaceContainer last;
    for (int link = 0; link < 3; link++)
    {
        PointToPointHelper helper;
        helper.SetDeviceAttribute("DataRate", StringValue(link == 1 ? rate : "10Gbps"));
        if (link == 2)
        {
            helper.SetChannelAttribute("Delay", TimeValue(Seconds(rtt_ms / 2e3)));
        }
        helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
                        StringValue(link == 1 ? buffer : "1000000p"));
        NetDeviceContainer devices = helper.Install(nodes.Get(link), nodes.Get(link + 1));
        if (link == 2 && loss > 0)
        {
            Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
            errors->SetRate(loss);
            errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
            devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
        }
        for (uint32_t i = 0; i < 2; i++)
        {
            devices.Get(i)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&Sent));
        }
        last = addresses.Assign(devices);
        addresses.NewNetwork();
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const uint16_t port = 5201;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    ApplicationContainer receiving = sink.Install(nodes.Get(3));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(last.GetAddress(1), port));
    bulk.Install(nodes.Get(0)).Start(Seconds(0));
    Simulator::Stop(Seconds(duration_s));
    Simulator::Run();
    const double received = DynamicCast<PacketSink>(receiving.Get(0))->GetTotalRx();
    std::printf("%.4f %lu %.3f\n", ProcessorSeconds(), static_cast<unsigned long>(g_sent),
                8e-6 * received / duration_s);
    Simulator::Destroy();
    return 0;
}
